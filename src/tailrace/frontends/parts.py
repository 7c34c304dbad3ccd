"""The content of a message: one string, or parts of which each says its type. Only text is taken."""

from collections.abc import Mapping, Sequence

from tailrace.errors import InvalidRequest

__all__ = ["Content", "Part", "TextTypes", "text_of"]

Part = dict[str, object]
"""Not yet looked at: its `type` decides what else may be in it."""

Content = str | list[Part]

TextTypes = Mapping[str, frozenset[str]]
"""The types of parts that are text -> what they may have besides `type` and `text`, all of which changes nothing."""

_OF_ALL = frozenset(("type", "text"))


def text_of(content: Content, place: str, types: TextTypes) -> str:
    """Parts are lines. Raises InvalidRequest, with the place, for a part of another type or of unknown fields."""
    return content if isinstance(content, str) else "\n".join(_part_texts(content, place, types))


def _part_texts(parts: Sequence[Part], place: str, types: TextTypes) -> list[str]:
    return [_part_text(part, f"{place}[{i}]", types) for i, part in enumerate(parts)]


def _part_text(part: Part, place: str, types: TextTypes) -> str:
    kind, text = part.get("type"), part.get("text")
    if not isinstance(kind, str) or kind not in types:
        raise InvalidRequest(f"{place} has {_type_name(kind)}; only text is supported", param=place)
    for name, value in part.items():
        if name not in _OF_ALL and name not in types[kind] and value is not None:
            param = f"{place}.{name[:64]}"
            raise InvalidRequest(f"unknown field {param!r}", param=param, code="unknown_parameter")
    if not isinstance(text, str):
        raise InvalidRequest(f"{place}.text must be a string", param=f"{place}.text")
    return text


def _type_name(kind: object) -> str:
    return f"the type {kind[:32]!r}" if isinstance(kind, str) else "no type"
