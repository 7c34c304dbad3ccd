"""Deltas gathered into one answer, for clients that do not stream."""

from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from tailrace.errors import EngineError
from tailrace.frontends.http.openai.answer import AnswerHead, WireUsage, check_end, wire_usage
from tailrace.frontends.http.openai.logprobs import ChatLogprobs, CompletionLogprobs, chat_logprobs, completion_logprobs
from tailrace.service.api import ChoiceDelta, TextLogprob, Usage

__all__ = ["Gathered", "encode_chat", "encode_completion"]


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


@dataclass(slots=True)
class _Choice:
    texts: list[str] = field(default_factory=list)
    logprobs: list[TextLogprob] = field(default_factory=list)
    end: ChoiceDelta | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Gathered:
    """The choices of an answer as they grow."""

    def __init__(self, num_choices: int) -> None:
        self._choices = [_Choice() for _ in range(num_choices)]

    def add(self, delta: ChoiceDelta) -> None:
        """Raises when the choice failed."""
        choice = self._choices[delta.index]
        choice.texts.append(delta.text)
        choice.logprobs.extend(delta.logprobs)
        if delta.finish_reason is not None:
            check_end(delta)
            choice.end = delta

    def chat_choices(self) -> list[ChatChoice]:
        return [self._chat_choice(index, choice) for index, choice in enumerate(self._choices)]

    def _chat_choice(self, index: int, choice: _Choice) -> ChatChoice:
        logprobs = chat_logprobs(choice.logprobs) if choice.logprobs else None
        return ChatChoice(index, ChatMessage("assistant", choice.text), logprobs, *_end(choice))

    def completion_choices(self) -> list[CompletionChoice]:
        return [self._completion_choice(index, choice) for index, choice in enumerate(self._choices)]

    def _completion_choice(self, index: int, choice: _Choice) -> CompletionChoice:
        logprobs = completion_logprobs(choice.logprobs) if choice.logprobs else None
        return CompletionChoice(index, choice.text, logprobs, *_end(choice))


def _end(choice: _Choice) -> tuple[str, str | int | None]:
    if choice.end is None or choice.end.finish_reason is None:
        raise EngineError("the stream ended before all of its choices did")
    return choice.end.finish_reason.value, choice.end.stop_reason


def encode_chat(head: AnswerHead, gathered: Gathered, usage: Usage) -> bytes:
    """Raises EngineError if a choice is not finished."""
    return _encode("chat.completion", head, gathered.chat_choices(), usage)


def encode_completion(head: AnswerHead, gathered: Gathered, usage: Usage) -> bytes:
    """Raises EngineError if a choice is not finished."""
    return _encode("text_completion", head, gathered.completion_choices(), usage)


def _encode(kind: str, head: AnswerHead, choices: list[ChatChoice] | list[CompletionChoice], usage: Usage) -> bytes:
    return msgspec.json.encode(
        Whole(head.answer_id, kind, head.created_s, head.model, head.fingerprint, choices, wire_usage(usage))
    )
