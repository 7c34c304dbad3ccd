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


class ChatMessage(Struct):
    role: str
    content: str
    refusal: None = None


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
    message = ChatMessage("assistant", choice.text)
    return ChatChoice(index, message, logprobs, choice.finish_reason.value, choice.stop_reason)


def _completion_choice(index: int, choice: WholeChoice) -> CompletionChoice:
    logprobs = completion_logprobs(choice.logprobs) if choice.logprobs else None
    return CompletionChoice(index, choice.text, logprobs, choice.finish_reason.value, choice.stop_reason)


def _encode(kind: str, head: AnswerHead, choices: list[ChatChoice] | list[CompletionChoice], usage: Usage) -> bytes:
    tier = UNSET if head.service_tier is None else head.service_tier
    return msgspec.json.encode(
        Whole(head.answer_id, kind, head.created_s, head.model, head.fingerprint, choices, wire_usage(usage), tier)
    )
