"""Deltas as the events of a message. All but the text of a delta is encoded once a block; per token only the text is.

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":  "text"  }}
|---------------------------------- before_text --------------------------------|       |after|

A block is opened by its first text: an answer without any has none, as in one piece. The input of a tool comes as the
model writes it, whether or not that will be JSON.
"""

from collections.abc import Callable

import msgspec

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.anthropic.blocks import SIGNATURE
from tailrace.frontends.http.anthropic.errors import ANTHROPIC_ERRORS
from tailrace.frontends.http.anthropic.message import Message, stop_of, usage_of
from tailrace.frontends.http.errors import Failure
from tailrace.frontends.sections import Cutter, Piece, SectionKind
from tailrace.service.api import ChoiceDelta, Usage

__all__ = ["MessageWriter"]

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


_MESSAGE_STOP = _event(b"message_stop", b'{"type":"message_stop"}')
_BEFORE_TEXT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b_delta","%b":'
)
_AFTER_TEXT = b"}}\n\n"
_DELTAS = {  # their names, and those of the text in them
    SectionKind.REASONING: (b"thinking", b"thinking"),
    SectionKind.TEXT: (b"text", b"text"),
    SectionKind.CALL: (b"input_json", b"partial_json"),
}


class MessageWriter:
    """Appends the events of one message to a buffer. `usage_now` is asked at the first delta, and is of that moment.

    Without `shows_thinking`, a block of thinking is empty.
    """

    keep_alive = _event(b"ping", b'{"type":"ping"}')

    def __init__(
        self, head: AnswerHead, usage_now: Callable[[], Usage], max_tokens: int, *, shows_thinking: bool = True
    ) -> None:
        self._head = head
        self._usage_now = usage_now
        self._max_tokens = max_tokens
        self._shows_thinking = shows_thinking
        self._is_open = False
        self._cutter = Cutter()
        self._num_blocks = 0
        self._kind: SectionKind | None = None  # of the block that is open
        self._is_in_text = False  # whether it is of text
        self._before_text = b""  # of its deltas
        self._end: ChoiceDelta | None = None

    @property
    def is_complete(self) -> bool:
        return self._end is not None

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None = None) -> None:
        """Appends the events of a delta. Raises when the answer failed. These events have no place for `usage`."""
        if not self._is_open:
            self._open(buffer)
        if not self._is_in_text or delta.reasoning or delta.calls:
            for piece in self._cutter.cut(delta):
                self._write_piece(buffer, piece)
        elif delta.text:  # as nearly always
            buffer += self._before_text
            _encode_into(delta.text, buffer, -1)
            buffer += _AFTER_TEXT
        if delta.finish_reason is not None:
            check_end(delta)
            self._end = delta
            self._close_block(buffer)

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

    def _write_piece(self, buffer: bytearray, piece: Piece) -> None:
        if piece.number == self._num_blocks:
            self._close_block(buffer)
            self._open_block(buffer, piece)
        if piece.text and (self._shows_thinking or piece.kind is not SectionKind.REASONING):
            buffer += self._before_text + _encode(piece.text) + _AFTER_TEXT

    def _open_block(self, buffer: bytearray, piece: Piece) -> None:
        self._num_blocks += 1
        self._kind = piece.kind
        self._is_in_text = piece.kind is SectionKind.TEXT
        self._before_text = _BEFORE_TEXT % (piece.number, *_DELTAS[piece.kind])
        data = {"type": "content_block_start", "index": piece.number, "content_block": _begun(piece)}
        buffer += _event(b"content_block_start", _encode(data))

    def _close_block(self, buffer: bytearray) -> None:
        """The one that is open, if any is."""
        if self._kind is None:
            return
        number = self._num_blocks - 1
        if self._kind is SectionKind.REASONING:
            buffer += _BEFORE_TEXT % (number, b"signature", b"signature") + _encode(SIGNATURE) + _AFTER_TEXT
        buffer += _event(b"content_block_stop", b'{"type":"content_block_stop","index":%d}' % number)
        self._kind = None


def _begun(piece: Piece) -> dict[str, object]:
    """A block of which nothing has come yet."""
    match piece.kind:
        case SectionKind.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case SectionKind.TEXT:
            return {"type": "text", "text": ""}
        case SectionKind.CALL:
            return {"type": "tool_use", "id": piece.call_id, "name": piece.name, "input": {}}
