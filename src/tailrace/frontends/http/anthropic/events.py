"""Deltas as the events of a message. All but the text of a delta is encoded once; per token only the text is.

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":  "text"  }}
|---------------------------------- before_text --------------------------------|       |after|

A block is opened by its first text: an answer without any has none, as in one piece.
"""

from collections.abc import Callable

import msgspec

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.anthropic.errors import ANTHROPIC_ERRORS
from tailrace.frontends.http.anthropic.message import Message, stop_of, usage_of
from tailrace.frontends.http.errors import Failure
from tailrace.service.api import ChoiceDelta, Usage

__all__ = ["MessageWriter"]

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


_BLOCK_START = _event(
    b"content_block_start", b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
)
_BLOCK_STOP = _event(b"content_block_stop", b'{"type":"content_block_stop","index":0}')
_MESSAGE_STOP = _event(b"message_stop", b'{"type":"message_stop"}')
_BEFORE_TEXT, _AFTER_TEXT = _event(
    b"content_block_delta", b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":?}}'
).split(b"?")


class MessageWriter:
    """Appends the events of one message to a buffer. `usage_now` is asked at the first delta, and is of that moment."""

    keep_alive = _event(b"ping", b'{"type":"ping"}')

    def __init__(self, head: AnswerHead, usage_now: Callable[[], Usage], max_tokens: int) -> None:
        self._head = head
        self._usage_now = usage_now
        self._max_tokens = max_tokens
        self._is_open = False
        self._has_block = False
        self._end: ChoiceDelta | None = None

    @property
    def is_complete(self) -> bool:
        return self._end is not None

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None = None) -> None:
        """Appends the events of a delta. Raises when the answer failed. These events have no place for `usage`."""
        if not self._is_open:
            self._open(buffer)
        if delta.text:
            if not self._has_block:
                self._has_block = True
                buffer += _BLOCK_START
            buffer += _BEFORE_TEXT
            _encode_into(delta.text, buffer, -1)
            buffer += _AFTER_TEXT
        if delta.finish_reason is not None:
            check_end(delta)
            self._end = delta
            if self._has_block:
                buffer += _BLOCK_STOP

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends why it ended, with its usage. Raises EngineError if it has not."""
        end, usage = self._end, usage or self._usage_now()
        if end is None or end.finish_reason is None:
            raise EngineError("the stream ended before its answer did")
        stop_reason, stop_sequence = stop_of(end.finish_reason, end.stop_reason, usage, self._max_tokens)
        data = {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": stop_sequence},
            "usage": usage_of(usage, self._head),
        }
        buffer += _event(b"message_delta", _encode(data)) + _MESSAGE_STOP

    def failure(self, failure: Failure) -> bytes:
        return _event(b"error", ANTHROPIC_ERRORS.encode(failure))

    def _open(self, buffer: bytearray) -> None:
        self._is_open = True
        head = self._head
        message = Message(head.answer_id, head.model, [], None, None, usage_of(self._usage_now(), head))
        buffer += _event(b"message_start", _encode({"type": "message_start", "message": message}))
