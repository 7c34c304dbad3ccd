"""Messages in the shape that every format and template takes: a role, and the content as one string."""

from collections.abc import Mapping
from typing import Any

from tailrace.errors import InvalidRequest

__all__ = ["plain_message"]


def plain_message(message: Any, place: int) -> dict[str, Any]:
    """The message with its content as one string. Raises InvalidRequest for another shape."""
    where = f"messages[{place}]"
    if not isinstance(message, Mapping):
        raise InvalidRequest(f"{where} is a {type(message).__name__}; it must be a mapping with a role", param=where)
    if not isinstance(message.get("role"), str):
        raise InvalidRequest(f"{where} has no role", param=f"{where}.role")
    plain = dict(message)
    if isinstance(content := message.get("content"), list | tuple):
        plain["content"] = "\n".join([_part_text(part, f"{where}.content[{i}]") for i, part in enumerate(content)])
    elif content is not None and not isinstance(content, str):
        raise InvalidRequest(
            f"{where}.content is neither a string nor a list of parts but {type(content).__name__}",
            param=f"{where}.content",
        )
    return plain


def _part_text(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind != "text":
        raise InvalidRequest(
            f"{where} is of type {kind!r}; this model takes parts of type 'text' only", param=f"{where}.type"
        )
    text = part.get("text")
    if not isinstance(text, str):
        raise InvalidRequest(f"{where}.text is not a string", param=f"{where}.text")
    return text
