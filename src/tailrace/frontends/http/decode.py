"""Bytes of a body to a typed struct, strictly: whatever is wrong is refused with the name of the field."""

import re
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.complaint import invalid_value
from tailrace.frontends.fields import FieldRules

__all__ = ["BodyDecoder"]

Body = TypeVar("Body", bound=Struct)

# The escapes of a body: pairs of surrogates, which are one character; those that stand alone, which are none; others.
_SURROGATES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_OF_ESCAPES = "truncated"  # so the decoder calls a body, too, that has too little behind half a character


class _Name(str):
    """A type of its own, so that the decoder hands over each name, the repeated ones too."""

    __slots__ = ()


class BodyDecoder(Generic[Body]):
    def __init__(self, schema: type[Body], rules: FieldRules) -> None:
        self._rules = rules
        self._obeyed = frozenset(field.encode_name for field in msgspec.structs.fields(schema))
        self._decoder = msgspec.json.Decoder(schema)

    def decode(self, body: bytes) -> Body:
        """Raises InvalidRequest for anything but a JSON object of known names and fitting values."""
        try:
            self._check_names(body)
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise invalid_value(str(error)) from None
        except msgspec.DecodeError as error:
            raise InvalidRequest(_what_is_wrong(body, str(error)), code="invalid_json") from None
        except RecursionError:
            raise InvalidRequest("the body is nested too deeply", code="invalid_json") from None

    def _check_names(self, body: bytes) -> None:
        for name, value in _top_level(body).items():
            if name not in self._obeyed and name not in self._rules.accepted and bytes(value) != b"null":
                _check_unsupported(str(name), value, self._rules)


def _what_is_wrong(body: bytes, complaint: str) -> str:
    """What the decoder complains of. Where it says only how it noticed, say what it is."""
    if not body.strip():
        return "the body is empty: send a JSON object"
    if complaint.endswith(_OF_ESCAPES) or "surrogate" in complaint or "hex escape" in complaint:
        lone = next((match[1] for match in _SURROGATES.finditer(body) if match[1]), None)
        if lone is not None:
            return (
                f"the body is not valid JSON: {lone.decode()} is half a character; send the whole one, "
                "as UTF-8 or as two such escapes"
            )
    return f"the body is not valid JSON: {complaint}"


def _top_level(body: bytes) -> dict[str, Raw]:
    seen: set[str] = set()

    def take_name(kind: type[Any], name: str) -> str:
        if name in seen:
            raise InvalidRequest(f"the field {name[:64]!r} is there twice; send it once", param=name[:64])
        seen.add(name)
        return _Name(name)

    names: dict[str, Raw] = msgspec.json.decode(body, type=dict[_Name, Raw], dec_hook=take_name)
    return names


def _check_unsupported(name: str, value: Raw, rules: FieldRules) -> None:
    refusal = rules.refused.get(name)
    if refusal is None:
        raise InvalidRequest(f"unknown field {name[:64]!r}", param=name[:64], code="unknown_parameter")
    if msgspec.json.decode(value) not in refusal.neutral:
        raise InvalidRequest(f"{name!r} is refused: {refusal.reason}", param=name, code="unsupported_parameter")
