"""Bytes of a body to a typed struct, strictly: whatever is wrong is refused with the name of the field."""

import re
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.openai.fields import ACCEPTED, REFUSED

__all__ = ["BodyDecoder"]

Body = TypeVar("Body", bound=Struct)

_MISSING = re.compile(r"^Object missing required field `([^`]+)`(?: - at `\$\.?([^`]*)`)?$")
_UNKNOWN = re.compile(r"^Object contains unknown field `([^`]+)`(?: - at `\$\.?([^`]*)`)?$")
_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")


class _Name(str):
    """A type of its own, so that the decoder hands over each name, the repeated ones too."""

    __slots__ = ()


class BodyDecoder(Generic[Body]):
    def __init__(self, schema: type[Body]) -> None:
        self._obeyed = frozenset(field.encode_name for field in msgspec.structs.fields(schema))
        self._decoder = msgspec.json.Decoder(schema)

    def decode(self, body: bytes) -> Body:
        """Raises InvalidRequest for anything but a JSON object of known names and fitting values."""
        try:
            self._check_names(body)
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise _invalid_value(str(error)) from None
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"the body is not valid JSON: {error}", code="invalid_json") from None
        except RecursionError:
            raise InvalidRequest("the body is nested too deeply", code="invalid_json") from None

    def _check_names(self, body: bytes) -> None:
        for name, value in _top_level(body).items():
            if name not in self._obeyed and name not in ACCEPTED and bytes(value) != b"null":
                _check_unsupported(str(name), value)


def _top_level(body: bytes) -> dict[str, Raw]:
    seen: set[str] = set()

    def take_name(kind: type[Any], name: str) -> str:
        if name in seen:
            raise InvalidRequest(f"the field {name[:64]!r} is there twice; send it once", param=name[:64])
        seen.add(name)
        return _Name(name)

    names: dict[str, Raw] = msgspec.json.decode(body, type=dict[_Name, Raw], dec_hook=take_name)
    return names


def _check_unsupported(name: str, value: Raw) -> None:
    refusal = REFUSED.get(name)
    if refusal is None:
        raise InvalidRequest(f"unknown field {name[:64]!r}", param=name[:64], code="unknown_parameter")
    if msgspec.json.decode(value) not in refusal.neutral:
        raise InvalidRequest(f"{name!r} is refused: {refusal.reason}", param=name, code="unsupported_parameter")


def _invalid_value(complaint: str) -> InvalidRequest:
    """The decoder's complaint with its place as `param`: `$.messages[0].role` -> messages[0].role."""
    if match := _MISSING.match(complaint):
        param = _join(match[2], match[1])
        return InvalidRequest(f"{param!r} is missing", param=param, code="missing_required_parameter")
    if match := _UNKNOWN.match(complaint):
        param = _join(match[2], match[1][:64])
        return InvalidRequest(f"unknown field {param!r}", param=param, code="unknown_parameter")
    place = _PLACE.search(complaint)
    param = place[1] if place else ""
    what = complaint[: place.start()] if place else complaint
    return InvalidRequest(f"{param or 'the body'} has an invalid value: {what}", param=param or None)


def _join(place: str | None, name: str) -> str:
    return f"{place}.{name}" if place else name
