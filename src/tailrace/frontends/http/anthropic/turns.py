"""Turns of a conversation as messages. Results of tools are parts of a user's turn, and messages of their own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.anthropic.blocks import RAW_INPUT
from tailrace.frontends.http.anthropic.schema import (
    RedactedThinkingPart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    Turn,
)
from tailrace.frontends.parts import text_of
from tailrace.frontends.tools import CallHistory, call_of
from tailrace.frontends.typed_parts import typed_part

__all__ = ["TEXT_TYPES", "messages_of"]

TEXT_TYPES = {"text": frozenset(("cache_control", "citations"))}  # neither changes what the model reads

_PARTS: Mapping[str, Mapping[str, type[Struct]]] = {
    "system": {"text": TextPart},
    "user": {"text": TextPart, "tool_result": ToolResultPart},
    "assistant": {
        "text": TextPart,
        "tool_use": ToolUsePart,
        "thinking": ThinkingPart,
        "redacted_thinking": RedactedThinkingPart,
    },
}

_Message = dict[str, Any]


def messages_of(turns: Sequence[Turn]) -> list[_Message]:
    """Turns in a row of the same role are one, as in the API: many templates want roles to alternate.

    Raises InvalidRequest with the place of what is not supported.
    """
    groups, calls = list[list[_Message]](), CallHistory()
    for number, turn in enumerate(turns):
        for message in _read(turn, f"messages[{number}].content", calls):
            if groups and groups[-1][0]["role"] == message["role"] != "tool":
                groups[-1].append(message)
            else:
                groups.append([message])
    return [_joined(group) for group in groups]


def _read(turn: Turn, place: str, calls: CallHistory) -> Iterator[_Message]:
    if isinstance(turn.content, str):
        yield {"role": turn.role, "content": turn.content}
        return
    places = [f"{place}[{number}]" for number in range(len(turn.content))]
    parts = [typed_part(part, _PARTS[turn.role], at) for part, at in zip(turn.content, places, strict=True)]
    if turn.role == "assistant":
        yield _answer(parts, places, calls)
    else:
        yield from _question(turn.role, parts, places, calls)


def _answer(parts: Sequence[Struct], places: Sequence[str], calls: CallHistory) -> _Message:
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    thoughts = [part.thinking for part in parts if isinstance(part, ThinkingPart)]
    message: _Message = {"role": "assistant", "content": "\n".join(texts)}
    if any(thoughts):
        message["reasoning_content"] = "\n".join(thoughts)
    for part, place in zip(parts, places, strict=True):
        if isinstance(part, ToolUsePart):
            calls.add(part.id, part.name, f"{place}.id")
            arguments = _arguments(part.input, f"{place}.input")
            message.setdefault("tool_calls", []).append(call_of(part.id, part.name, arguments))
    return message


def _question(role: str, parts: Sequence[Struct], places: Sequence[str], calls: CallHistory) -> Iterator[_Message]:
    texts: list[str] = []
    for part, place in zip(parts, places, strict=True):
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ToolResultPart):
            if texts:
                yield {"role": role, "content": "\n".join(texts)}
                texts = []
            calls.name_of(part.tool_use_id, f"{place}.tool_use_id")
            yield {"role": "tool", "content": _result(part, place), "tool_call_id": part.tool_use_id}
    if texts or not parts:
        yield {"role": role, "content": "\n".join(texts)}


def _result(part: ToolResultPart, place: str) -> str:
    """A model is told in words that a call failed."""
    text = text_of(part.content, f"{place}.content", TEXT_TYPES)
    if not part.is_error:
        return text
    return f"Error: {text}" if text else "Error"


def _arguments(given: Mapping[str, Any], place: str) -> str:
    """Spaced as models space it, so that what they wrote is found in the cache where nothing else was in between."""
    raw = given.get(RAW_INPUT)
    if isinstance(raw, str) and len(given) == 1:
        return raw
    try:
        return json.dumps(given, ensure_ascii=False)
    except (RecursionError, ValueError):
        raise InvalidRequest(f"{place} has a number too large or is nested too deeply", param=place) from None


def _joined(group: Sequence[_Message]) -> _Message:
    """At once, so that many turns take no longer than their text does."""
    if len(group) == 1:
        return group[0]
    message: _Message = {"role": group[0]["role"], "content": _lines(group, "content")}
    if reasoning := _lines(group, "reasoning_content"):
        message["reasoning_content"] = reasoning
    if calls := [call for each in group for call in each.get("tool_calls", ())]:
        message["tool_calls"] = calls
    return message


def _lines(group: Sequence[_Message], name: str) -> str:
    return "\n".join([each[name] for each in group if each.get(name)])
