"""Deltas as the events of a response. All but the text of a delta is encoded once; per token the text and a number are.

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":…,"delta":  "text"  ,"logprobs":[],"sequence_number":  9  }
|------------------------- before_text ----------------------|          |------------- plain_tail ------|

The events after the last delta have all of the text once more, so it is kept until then.
"""

import msgspec

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.errors import Failure
from tailrace.frontends.http.openai.logprobs import chat_logprobs
from tailrace.frontends.http.responses.response import (
    Failed,
    OutputMessage,
    OutputText,
    Response,
    ended,
    failed,
    item_of,
    status_of,
    text_of,
)
from tailrace.service.api import ChoiceDelta, TextLogprob, Usage

__all__ = ["ResponseWriter"]

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into

_DELTA = "response.output_text.delta"
_PLAIN_TAIL = b',"logprobs":[],"sequence_number":'


class ResponseWriter:
    """Appends the events of one response to a buffer. `begun` is the response as it is told at first."""

    keep_alive = b": keep-alive\n\n"

    def __init__(self, head: AnswerHead, begun: Response) -> None:
        self._head = head
        self._begun = begun
        self._item = item_of(head, "in_progress", [])  # with its content, once that is whole
        self._place = {"item_id": self._item.id, "output_index": 0, "content_index": 0}
        self._before_text = _start(_DELTA, self._place) + b',"delta":'
        self._texts: list[str] = []
        self._logprobs: list[TextLogprob] = []
        self._num_events = 0

    @property
    def is_complete(self) -> bool:
        return self._item.status != "in_progress"

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None = None) -> None:
        """Appends the events of a delta. Raises when the answer failed. These events have no place for `usage`."""
        if not self._num_events:
            self._open(buffer)
        if delta.text or delta.logprobs:
            self._write_text(buffer, delta)
        if delta.finish_reason is not None:
            check_end(delta)
            self._item = item_of(self._head, status_of(delta.finish_reason), [self._text])
            self._write_item(buffer)

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends the whole response. Raises EngineError if it is not finished, or without its usage."""
        if not self.is_complete or usage is None:
            raise EngineError("the stream ended before its answer did")
        whole = ended(self._begun, self._item, usage)
        self._write_event(buffer, f"response.{whole.status}", {"response": whole})

    def failure(self, failure: Failure) -> bytes:
        """The response as failed, with what there is of it."""
        buffer = bytearray()
        output: list[OutputMessage] = []
        if not self._num_events:
            self._write_beginning(buffer)
        else:
            output = [item_of(self._head, "incomplete", [self._text])]
        whole = failed(self._begun, output, Failed(_code(failure), failure.message))
        self._write_event(buffer, "response.failed", {"response": whole})
        return bytes(buffer)

    @property
    def _text(self) -> OutputText:
        return text_of("".join(self._texts), self._logprobs)

    def _open(self, buffer: bytearray) -> None:
        self._write_beginning(buffer)
        self._write_event(buffer, "response.output_item.added", {"output_index": 0, "item": self._item})
        self._write_event(buffer, "response.content_part.added", self._place | {"part": text_of("")})

    def _write_beginning(self, buffer: bytearray) -> None:
        for name in ("response.created", "response.in_progress"):
            self._write_event(buffer, name, {"response": self._begun})

    def _write_text(self, buffer: bytearray, delta: ChoiceDelta) -> None:
        self._texts.append(delta.text)
        buffer += self._before_text
        _encode_into(delta.text, buffer, -1)
        if delta.logprobs:
            self._logprobs += delta.logprobs
            buffer += b',"logprobs":' + _encode(chat_logprobs(delta.logprobs).content)
            buffer += b',"sequence_number":%d}\n\n' % self._num_events
        else:
            buffer += b"%b%d}\n\n" % (_PLAIN_TAIL, self._num_events)
        self._num_events += 1

    def _write_item(self, buffer: bytearray) -> None:
        (content,) = self._item.content
        done = {"text": content.text, "logprobs": content.logprobs}
        self._write_event(buffer, "response.output_text.done", self._place | done)
        self._write_event(buffer, "response.content_part.done", self._place | {"part": content})
        self._write_event(buffer, "response.output_item.done", {"output_index": 0, "item": self._item})

    def _write_event(self, buffer: bytearray, name: str, fields: dict[str, object]) -> None:
        buffer += _start(name, fields) + b',"sequence_number":%d}\n\n' % self._num_events
        self._num_events += 1


def _start(name: str, fields: dict[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _encode({"type": name} | fields)[:-1]


def _code(failure: Failure) -> str:
    if failure.status >= 500:
        return "server_error"
    return "rate_limit_exceeded" if failure.status == 429 else "invalid_prompt"
