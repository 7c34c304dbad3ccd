"""Deltas as the events of a response: of the response itself, and of its items one after another."""

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.errors import Failure
from tailrace.frontends.http.responses.item_events import ItemEvents, NumberedEvents
from tailrace.frontends.http.responses.items import Item
from tailrace.frontends.http.responses.response import Failed, Response, ended, failed, status_of
from tailrace.frontends.sections import Cutter, Piece, SectionKind
from tailrace.service.api import ChoiceDelta, Usage
from tailrace.types import FinishReason

__all__ = ["ResponseWriter"]


class ResponseWriter:
    """Appends the events of one response to a buffer. `begun` is the response as it is told at first."""

    keep_alive = b": keep-alive\n\n"

    def __init__(self, head: AnswerHead, begun: Response) -> None:
        self._head = head
        self._begun = begun
        self._events = NumberedEvents()
        self._cutter = Cutter()
        self._whole: list[Item] = []  # items that have ended
        self._item: ItemEvents | None = None  # the one that has not,
        self._text_item: ItemEvents | None = None  # if it is of text
        self._finish_reason: FinishReason | None = None

    @property
    def is_complete(self) -> bool:
        return self._finish_reason is not None

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None = None) -> None:
        """Appends the events of a delta. Raises when the answer failed. These events have no place for `usage`."""
        if not self._events.num:
            self._write_beginning(buffer)
        item = self._text_item
        if item is None or delta.reasoning or delta.calls or delta.logprobs:
            self._write_pieces(buffer, delta)
        elif delta.text:  # as nearly always
            item.write(buffer, delta.text)
        if delta.finish_reason is not None:
            check_end(delta)
            self._end(buffer, delta.finish_reason)

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends the whole response. Raises EngineError if it is not finished, or without its usage."""
        if self._finish_reason is None or usage is None:
            raise EngineError("the stream ended before its answer did")
        whole = ended(self._begun, self._whole, self._finish_reason, usage)
        self._events.write(buffer, f"response.{whole.status}", {"response": whole})

    def failure(self, failure: Failure) -> bytes:
        """The response as failed, with what there is of it."""
        buffer = bytearray()
        if not self._events.num:
            self._write_beginning(buffer)
        rest = [] if self._item is None else [self._item.so_far("incomplete")]
        whole = failed(self._begun, [*self._whole, *rest], Failed(_code(failure), failure.message))
        self._events.write(buffer, "response.failed", {"response": whole})
        return bytes(buffer)

    def _write_beginning(self, buffer: bytearray) -> None:
        for name in ("response.created", "response.in_progress"):
            self._events.write(buffer, name, {"response": self._begun})

    def _write_pieces(self, buffer: bytearray, delta: ChoiceDelta) -> None:
        for piece in self._cutter.cut(delta):
            self._write_piece(buffer, piece)
        self._text_item = self._item if self._cutter.kind is SectionKind.TEXT else None

    def _write_piece(self, buffer: bytearray, piece: Piece) -> None:
        if self._item is None or piece.number > len(self._whole):
            if self._item is not None:
                self._whole.append(self._item.close(buffer, "completed"))
            self._item = ItemEvents(self._events, self._head, piece)
            self._item.open(buffer)
        self._item.write_piece(buffer, piece.text, piece.logprobs)

    def _end(self, buffer: bytearray, finish_reason: FinishReason) -> None:
        """An answer of nothing is an empty text."""
        if self._item is None:
            self._write_piece(buffer, self._cutter.empty_text())
        assert self._item is not None
        self._whole.append(self._item.close(buffer, status_of(finish_reason)))
        self._item, self._finish_reason = None, finish_reason


def _code(failure: Failure) -> str:
    if failure.status >= 500:
        return "server_error"
    return "rate_limit_exceeded" if failure.status == 429 else "invalid_prompt"
