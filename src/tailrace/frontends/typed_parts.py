"""Parts of a request that say what they are, as typed structs, strictly. Which there are, their front end says."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.complaint import invalid_value
from tailrace.frontends.parts import Part

__all__ = ["typed_part"]


def typed_part(part: Part, kinds: Mapping[str, type[Struct]], place: str, default: str | None = None) -> Struct:
    """As the struct of its `type`. Fields that are null are not there. Raises InvalidRequest with the place.

    Without a type it is one of type `default`.
    """
    kind = default if part.get("type") is None else part["type"]
    schema = kinds.get(kind) if isinstance(kind, str) else None
    if schema is None:
        shown = repr(kind[:32]) if isinstance(kind, str) else "no name"
        known = ", ".join(kinds)
        raise InvalidRequest(f"{place}.type is {shown}; supported are {known}", param=f"{place}.type")
    given = {name: value for name, value in part.items() if value is not None}
    try:
        return msgspec.convert(given, schema)
    except msgspec.ValidationError as error:
        raise invalid_value(str(error), place) from None
