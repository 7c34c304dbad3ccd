"""Deltas as server-sent events. All but the text of a frame is encoded once per choice; per token only the text is.

data: {"id":…,"choices":[{"index":0,"delta":{"content":  "text"  },"logprobs":null,"finish_reason":null}]}
|-------------------- before_text ---------------------|       |------------------ plain_tail -----------|
"""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.errors import Failure
from tailrace.frontends.http.openai.errors import OPENAI_ERRORS
from tailrace.frontends.http.openai.logprobs import ChatLogprobs, CompletionLogprobs, chat_logprobs, completion_logprobs
from tailrace.frontends.http.openai.usage import wire_usage
from tailrace.service.api import ChoiceDelta, TextLogprob, Usage

__all__ = ["ChatShape", "ChunkShape", "ChunkWriter", "CompletionShape"]

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"  # a comment, which clients drop

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into


class ChunkShape(Protocol):
    """Where the two kinds of chunk differ: the object's name, and what encloses a text."""

    kind: str
    role: bytes  # body of a choice's first chunk; empty: none
    before_text: bytes
    after_text: bytes
    without_text: bytes

    def logprobs(self, entries: tuple[TextLogprob, ...]) -> ChatLogprobs | CompletionLogprobs: ...


class ChatShape:
    kind = "chat.completion.chunk"
    role = b'"delta":{"role":"assistant","content":""}'
    before_text = b'"delta":{"content":'
    after_text = b"}"
    without_text = b'"delta":{}'

    def logprobs(self, entries: tuple[TextLogprob, ...]) -> ChatLogprobs:
        return chat_logprobs(entries)


class CompletionShape:
    kind = "text_completion"
    role = b""
    before_text = b'"text":'
    after_text = b""
    without_text = b'"text":""'

    def logprobs(self, entries: tuple[TextLogprob, ...]) -> CompletionLogprobs:
        return completion_logprobs(entries)


@dataclass(slots=True)
class _ChoiceFrames:
    """The fixed parts of one choice's frames, and how far the choice is."""

    before_choice: bytes
    before_text: bytes
    plain_tail: bytes
    is_open: bool = False


class ChunkWriter:
    """Appends the frames of one answer to a buffer. With `has_usage`, each chunk has that field."""

    keep_alive = KEEP_ALIVE

    def __init__(self, shape: ChunkShape, head: AnswerHead, num_choices: int, *, has_usage: bool) -> None:
        self._shape = shape
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
        tail = self._shape.after_text + b',"logprobs":null,"finish_reason":null}]' + self._usage_null + b"}\n\n"
        return _ChoiceFrames(before_choice, before_choice + self._shape.before_text, tail)

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None = None) -> None:
        """Appends the frames of a delta; `usage` is shown in them. Raises when the choice failed."""
        choice = self._choices[delta.index]
        if not choice.is_open:
            self._write_role(buffer, choice, usage)
        if delta.logprobs or (delta.text and usage is not None):
            self._write_detailed(buffer, choice, delta, usage)
        elif delta.text:
            buffer += choice.before_text
            _encode_into(delta.text, buffer, -1)
            buffer += choice.plain_tail
        if delta.finish_reason is not None:
            check_end(delta)
            self._write_finish(buffer, choice, delta, usage)

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

    def _write_role(self, buffer: bytearray, choice: _ChoiceFrames, usage: Usage | None) -> None:
        choice.is_open = True
        if self._shape.role:
            buffer += choice.before_choice + self._shape.role
            buffer += b',"logprobs":null,"finish_reason":null}]' + self._usage(usage) + b"}\n\n"

    def _write_detailed(
        self, buffer: bytearray, choice: _ChoiceFrames, delta: ChoiceDelta, usage: Usage | None
    ) -> None:
        logprobs = self._shape.logprobs(delta.logprobs) if delta.logprobs else None
        buffer += choice.before_text + _encode(delta.text) + self._shape.after_text
        buffer += b',"logprobs":' + _encode(logprobs) + b',"finish_reason":null}]' + self._usage(usage) + b"}\n\n"

    def _write_finish(self, buffer: bytearray, choice: _ChoiceFrames, delta: ChoiceDelta, usage: Usage | None) -> None:
        self._num_unfinished -= 1
        buffer += choice.before_choice + self._shape.without_text
        buffer += b',"logprobs":null,"finish_reason":' + _encode(delta.finish_reason)
        buffer += b',"stop_reason":' + _encode(delta.stop_reason) + b"}]" + self._usage(usage) + b"}\n\n"

    def _usage(self, usage: Usage | None) -> bytes:
        return self._usage_null if usage is None else b',"usage":' + _encode(wire_usage(usage))


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
