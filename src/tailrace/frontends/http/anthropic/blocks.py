"""The blocks of a message that was answered: thinking, text and uses of tools, as the wire has them."""

import msgspec
from msgspec import Raw, Struct

from tailrace.frontends.sections import Section, SectionKind

__all__ = ["RAW_INPUT", "SIGNATURE", "Block", "ThinkingBlock", "block_of"]

SIGNATURE = "unsigned"
"""Of all thinking: nothing is verified here. Not empty, since some clients send back only thinking that has one."""

RAW_INPUT = "_raw"
"""The one field of an input that is no JSON object, as a model may write it or `max_tokens` may cut it: its text."""


class TextBlock(Struct, tag_field="type", tag="text"):
    text: str


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str = SIGNATURE


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: Raw


Block = TextBlock | ThinkingBlock | ToolUseBlock


def block_of(section: Section) -> Block:
    match section.kind:
        case SectionKind.REASONING:
            return ThinkingBlock(section.text)
        case SectionKind.TEXT:
            return TextBlock(section.text)
        case SectionKind.CALL:
            return ToolUseBlock(section.call_id, section.name, _input(section.text))


def _input(arguments: str) -> Raw:
    """As the model wrote it, if that is an object. Nothing at all is one without fields."""
    if not arguments.strip():
        return Raw(b"{}")
    try:
        is_object = isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        is_object = False
    return Raw(arguments.encode() if is_object else msgspec.json.encode({RAW_INPUT: arguments}))
