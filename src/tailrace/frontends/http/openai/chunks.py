"""Deltas as server-sent events. All but the text of a frame is encoded once per choice; per token only the text is.

data: {"id":…,"choices":[{"index":0,"delta":{"content":  "text"  },"logprobs":null,"finish_reason":null}]}
|-------------------- before_text ---------------------|       |------------------ plain_tail -----------|

Reasoning has such parts of its own. A call has its name in one frame, and each piece of its arguments in another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.errors import Failure
from tailrace.frontends.http.openai.errors import OPENAI_ERRORS
from tailrace.frontends.http.openai.logprobs import ChatLogprobs, CompletionLogprobs, chat_logprobs, completion_logprobs
from tailrace.frontends.http.openai.usage import wire_usage
from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob, Usage

__all__ = ["ChatShape", "ChunkShape", "ChunkWriter", "CompletionShape", "in_frames"]

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"  # a comment, which clients drop

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into


class ChunkShape(Protocol):
    """Where the two kinds of chunk differ: the object's name, and what encloses a text."""

    kind: str
    before_text: bytes
    after_text: bytes
    without_text: bytes

    def role(self, delta: ChoiceDelta) -> bytes:
        """Body of the first chunk of a choice that begins with this delta; empty: there is none."""
        ...

    def content(self, text: str, reasoning: str) -> bytes:
        """Body of a chunk of both, of which either may be empty."""
        ...

    def logprobs(self, entries: Sequence[TextLogprob]) -> ChatLogprobs | CompletionLogprobs: ...


class ChatShape:
    kind = "chat.completion.chunk"
    before_text = b'"delta":{"content":'
    after_text = b"}"
    without_text = b'"delta":{}'

    def role(self, delta: ChoiceDelta) -> bytes:
        content = b"null" if delta.reasoning or delta.calls else b'""'
        return b'"delta":{"role":"assistant","content":%b}' % content

    def content(self, text: str, reasoning: str) -> bytes:
        fields = {"reasoning_content": reasoning, "reasoning": reasoning} if reasoning else {}
        return b'"delta":' + _encode(fields | {"content": text} if text else fields)

    def logprobs(self, entries: Sequence[TextLogprob]) -> ChatLogprobs:
        return chat_logprobs(entries)


class CompletionShape:
    """Its answers are all text."""

    kind = "text_completion"
    before_text = b'"text":'
    after_text = b""
    without_text = b'"text":""'

    def role(self, delta: ChoiceDelta) -> bytes:
        return b""

    def content(self, text: str, reasoning: str) -> bytes:
        return b'"text":' + _encode(text)

    def logprobs(self, entries: Sequence[TextLogprob]) -> CompletionLogprobs:
        return completion_logprobs(entries)


def in_frames(calls: Sequence[CallDelta]) -> Iterator[CallDelta]:
    """The same, each for a frame of its own: what begins a call has no arguments yet."""
    for call in calls:
        if call.name and call.arguments:
            yield replace(call, arguments="")
            yield CallDelta(call.index, call.arguments)
        else:
            yield call


@dataclass(slots=True)
class _ChoiceFrames:
    """The fixed parts of one choice's frames, and how far the choice is."""

    before_choice: bytes
    before_text: bytes
    before_reasoning: bytes
    plain_tail: bytes
    is_open: bool = False


_BETWEEN_REASONING = b',"reasoning":'  # which clients look for in either field


class ChunkWriter:
    """Appends the frames of one answer to a buffer. With `has_usage`, each chunk has that field.

    Unless it `shows_reasoning`, an answer comes without.
    """

    keep_alive = KEEP_ALIVE

    def __init__(
        self,
        shape: ChunkShape,
        head: AnswerHead,
        num_choices: int,
        *,
        has_usage: bool,
        shows_reasoning: bool = True,
    ) -> None:
        self._shape = shape
        self._shows_reasoning = shows_reasoning
        self._usage_null = b',"usage":null' if has_usage else b""
        self._head = _head(shape.kind, head)
        self._choices = [self._frames(index) for index in range(num_choices)]
        self._num_unfinished = num_choices

    @property
    def is_complete(self) -> bool:
        """Whether all choices have ended."""
        return self._num_unfinished == 0

    def _frames(self, index: int) -> _ChoiceFrames:
        before_choice = self._head + b'[{"index":%d,' % index
        before_reasoning = before_choice + b'"delta":{"reasoning_content":'
        tail = self._shape.after_text + b',"logprobs":null,"finish_reason":null}]' + self._usage_null + b"}\n\n"
        return _ChoiceFrames(before_choice, before_choice + self._shape.before_text, before_reasoning, tail)

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None = None) -> None:
        """Appends the frames of a delta; `usage` is shown in them. Raises when the choice failed."""
        choice = self._choices[delta.index]
        if not choice.is_open:
            self.open(buffer, delta, usage)
        if delta.logprobs or usage is not None:
            self._write_detailed(buffer, choice, delta, usage)
        else:
            if delta.reasoning and self._shows_reasoning:
                _write_reasoning(buffer, choice, delta.reasoning)
            if delta.text:
                buffer += choice.before_text
                _encode_into(delta.text, buffer, -1)
                buffer += choice.plain_tail
        if delta.calls:
            self._write_calls(buffer, choice, delta.calls, usage)
        if delta.finish_reason is not None:
            check_end(delta)
            self._write_finish(buffer, choice, delta, usage)

    def open(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None) -> None:
        """Appends the frame in front of a choice that begins with this delta, if there is one. Only once."""
        choice = self._choices[delta.index]
        choice.is_open = True
        if role := self._shape.role(delta):
            buffer += choice.before_choice + role
            buffer += b',"logprobs":null,"finish_reason":null}]' + self._usage(usage) + b"}\n\n"

    def pass_over(self, index: int, *, is_finished: bool) -> None:
        """The client has the beginning of a choice, or all of it."""
        self._choices[index].is_open = True
        self._num_unfinished -= is_finished

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends the usage chunk, if wanted, and the end mark. Raises EngineError if a choice is not finished."""
        if not self.is_complete:
            raise EngineError("the stream ended before all of its choices did")
        if usage is not None:
            buffer += self._head + b'[],"usage":' + _encode(wire_usage(usage)) + b"}\n\n"
        buffer += DONE

    def failure(self, failure: Failure) -> bytes:
        """The frame that tells of a failure. No end mark comes after it: the answer is not whole."""
        return b"data: " + OPENAI_ERRORS.encode(failure) + b"\n\n"

    def _write_detailed(
        self, buffer: bytearray, choice: _ChoiceFrames, delta: ChoiceDelta, usage: Usage | None
    ) -> None:
        """The frame of text and reasoning with all that there is besides, if there is any of it."""
        reasoning, entries = delta.reasoning, delta.logprobs
        if not self._shows_reasoning:
            reasoning, entries = "", tuple([each for each in entries if not each.is_reasoning])
        if delta.text or reasoning or entries:
            logprobs = self._shape.logprobs(entries) if entries else None
            buffer += choice.before_choice + self._shape.content(delta.text, reasoning)
            buffer += b',"logprobs":' + _encode(logprobs) + b',"finish_reason":null}]' + self._usage(usage) + b"}\n\n"

    def _write_calls(
        self, buffer: bytearray, choice: _ChoiceFrames, calls: Sequence[CallDelta], usage: Usage | None
    ) -> None:
        for call in in_frames(calls):
            buffer += choice.before_choice + b'"delta":{"tool_calls":[{"index":%d,' % call.index
            if call.name:
                buffer += b'"id":' + _encode(call.call_id) + b',"type":"function","function":{"name":'
                buffer += _encode(call.name) + b',"arguments":'
            else:
                buffer += b'"function":{"arguments":'
            _encode_into(call.arguments, buffer, -1)
            buffer += b'}}]},"logprobs":null,"finish_reason":null}]' + self._usage(usage) + b"}\n\n"

    def _write_finish(self, buffer: bytearray, choice: _ChoiceFrames, delta: ChoiceDelta, usage: Usage | None) -> None:
        self._num_unfinished -= 1
        buffer += choice.before_choice + self._shape.without_text
        buffer += b',"logprobs":null,"finish_reason":' + _encode(delta.finish_reason)
        buffer += b',"stop_reason":' + _encode(delta.stop_reason) + b"}]" + self._usage(usage) + b"}\n\n"

    def _usage(self, usage: Usage | None) -> bytes:
        return self._usage_null if usage is None else b',"usage":' + _encode(wire_usage(usage))


def _write_reasoning(buffer: bytearray, choice: _ChoiceFrames, reasoning: str) -> None:
    encoded = _encode(reasoning)
    buffer += choice.before_reasoning
    buffer += encoded
    buffer += _BETWEEN_REASONING
    buffer += encoded
    buffer += choice.plain_tail


def _head(kind: str, head: AnswerHead) -> bytes:
    fields = {
        "id": head.answer_id,
        "object": kind,
        "created": head.created_s,
        "model": head.model,
        "system_fingerprint": head.fingerprint,
    }
    if head.service_tier is not None:
        fields["service_tier"] = head.service_tier
    return b"data: " + _encode(fields)[:-1] + b',"choices":'
