"""Deltas as server-sent events. All but the text of a frame is encoded once per choice; per token only the text is.

data: {"id":…,"choices":[{"index":0,"delta":{"content":  "text"  },"logprobs":null,"finish_reason":null}]}
|-------------------- before_text ---------------------|       |------------------ plain_tail -----------|
"""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from tailrace.errors import EngineError
from tailrace.frontends.http.openai.answer import AnswerHead, check_end, wire_usage
from tailrace.frontends.http.openai.logprobs import ChatLogprobs, CompletionLogprobs, chat_logprobs, completion_logprobs
from tailrace.service.api import ChoiceDelta, TextLogprob, Usage

__all__ = ["ChatShape", "ChunkShape", "ChunkWriter", "CompletionShape"]

DONE = b"data: [DONE]\n\n"

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
    is_finished: bool = False


class ChunkWriter:
    """Appends the frames of one answer to a buffer. With `has_usage`, each chunk has that field."""

    def __init__(self, shape: ChunkShape, head: AnswerHead, num_choices: int, *, has_usage: bool) -> None:
        self._shape = shape
        self._usage_null = b',"usage":null' if has_usage else b""
        self._head = _head(shape.kind, head)
        self._choices = [self._frames(index) for index in range(num_choices)]

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

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends the usage chunk, if wanted, and the end mark. Raises EngineError if a choice is not finished."""
        if not all(choice.is_finished for choice in self._choices):
            raise EngineError("the stream ended before all of its choices did")
        if usage is not None:
            buffer += self._head + b'[],"usage":' + _encode(wire_usage(usage)) + b"}\n\n"
        buffer += DONE

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
        choice.is_finished = True
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
    return b"data: " + _encode(fields)[:-1] + b',"choices":'
