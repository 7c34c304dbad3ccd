"""Completions in one piece, for clients that do not stream."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.gathered import WholeChoice
from tailrace.frontends.http.openai.logprobs import ChatLogprobs, CompletionLogprobs, chat_logprobs, completion_logprobs
from tailrace.frontends.http.openai.usage import WireUsage, wire_usage
from tailrace.service.api import Usage

__all__ = ["encode_chat", "encode_completion"]


class CalledFunction(Struct):
    name: str
    arguments: str


class ToolCall(Struct):
    id: str
    function: CalledFunction
    type: str = "function"


class ChatMessage(Struct):
    """Reasoning has two names, as clients look for either."""

    role: str
    content: str | None
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class ChatChoice(Struct):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: str
    stop_reason: str | int | None


class CompletionChoice(Struct):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str
    stop_reason: str | int | None


class Whole(Struct):
    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice] | list[CompletionChoice]
    usage: WireUsage
    service_tier: str | UnsetType = UNSET


def encode_chat(head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
    return _encode("chat.completion", head, [_chat_choice(*numbered) for numbered in enumerate(choices)], usage)


def encode_completion(head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage) -> bytes:
    return _encode("text_completion", head, [_completion_choice(*numbered) for numbered in enumerate(choices)], usage)


def _chat_choice(index: int, choice: WholeChoice) -> ChatChoice:
    logprobs = chat_logprobs(choice.logprobs) if choice.logprobs else None
    return ChatChoice(index, _message(choice), logprobs, choice.finish_reason.value, choice.stop_reason)


def _message(choice: WholeChoice) -> ChatMessage:
    """Content is null where there is something else in its place."""
    text, reasoning = choice.text, choice.reasoning or UNSET
    calls = [ToolCall(call.call_id, CalledFunction(call.name, call.text)) for call in choice.calls]
    content = None if not text and (calls or reasoning) else text
    return ChatMessage("assistant", content, None, reasoning, reasoning, calls or UNSET)


def _completion_choice(index: int, choice: WholeChoice) -> CompletionChoice:
    logprobs = completion_logprobs(choice.logprobs) if choice.logprobs else None
    return CompletionChoice(index, choice.text, logprobs, choice.finish_reason.value, choice.stop_reason)


def _encode(kind: str, head: AnswerHead, choices: list[ChatChoice] | list[CompletionChoice], usage: Usage) -> bytes:
    tier = UNSET if head.service_tier is None else head.service_tier
    return msgspec.json.encode(
        Whole(head.answer_id, kind, head.created_s, head.model, head.fingerprint, choices, wire_usage(usage), tier)
    )
