"""What msgspec finds wrong with a request, whatever its wire format, as an error that names the field."""

import re

from tailrace.errors import InvalidRequest

__all__ = ["invalid_value"]

_MISSING = re.compile(r"^Object missing required field `([^`]+)`(?: - at `\$\.?([^`]*)`)?$")
_UNKNOWN = re.compile(r"^Object contains unknown field `([^`]+)`(?: - at `\$\.?([^`]*)`)?$")
_PLACE = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")


def invalid_value(complaint: str, within: str = "") -> InvalidRequest:
    """The decoder's complaint with its place as `param`: `$.messages[0].role` -> messages[0].role.

    `within` is the place of what was decoded, if that is no whole request.
    """
    if match := _MISSING.match(complaint):
        param = _join(_inside(within, match[2]), match[1])
        return InvalidRequest(f"{param!r} is missing", param=param, code="missing_required_parameter")
    if match := _UNKNOWN.match(complaint):
        param = _join(_inside(within, match[2]), match[1][:64])
        return InvalidRequest(f"unknown field {param!r}", param=param, code="unknown_parameter")
    place = _PLACE.search(complaint)
    param = _inside(within, place[1] if place else "")
    what = complaint[: place.start()] if place else complaint
    return InvalidRequest(f"{param or 'the body'} has an invalid value: {what}", param=param or None)


def _inside(within: str, place: str | None) -> str:
    return f"{within}{place}" if place and place.startswith("[") else _join(within, place or "")


def _join(place: str | None, name: str) -> str:
    return f"{place}.{name}" if place and name else place or name
