"""The events of one item: it begins, grows and ends. All but the text of a delta is encoded once; per token the text
and a number are.

event: response.output_text.delta
data: {"type":"response.output_text.delta","item_id":…,"delta":  "text"  ,"logprobs":[],"sequence_number":  9  }
|------------------------ before_delta ----------------------|          |------------- plain_tail ------|

The events after the last delta have all of the text once more, so it is kept until then.
"""

from collections.abc import Mapping

import msgspec

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.openai.logprobs import chat_logprobs
from tailrace.frontends.http.responses.items import Item, Status, begun_item, item_of, part_of
from tailrace.frontends.sections import Piece, Section, SectionKind
from tailrace.service.api import TextLogprob

__all__ = ["ItemEvents", "NumberedEvents"]

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_encode_into = _encoder.encode_into

_STEMS = {
    SectionKind.REASONING: "response.reasoning_text",
    SectionKind.TEXT: "response.output_text",
    SectionKind.CALL: "response.function_call_arguments",
}
_NUMBER = b',"sequence_number":'


class NumberedEvents:
    """Counts the events of a response."""

    def __init__(self) -> None:
        self.num = 0

    def write(self, buffer: bytearray, name: str, fields: Mapping[str, object]) -> None:
        buffer += event_start(name, fields) + b"%b%d}\n\n" % (_NUMBER, self.num)
        self.num += 1


def event_start(name: str, fields: Mapping[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _encode({"type": name, **fields})[:-1]


class ItemEvents:
    """Of the item that `first` begins."""

    def __init__(self, events: NumberedEvents, head: AnswerHead, first: Piece) -> None:
        self.section = Section.begun_by(first)
        self._texts = self.section.texts
        self._events = events
        self._head = head
        self._number = first.number
        self._begun = begun_item(head, first.number, self.section)
        self._place: dict[str, object] = {"item_id": self._begun.id, "output_index": first.number}
        if first.kind is not SectionKind.CALL:
            self._place["content_index"] = 0
        self._stem = _STEMS[first.kind]
        self._before_delta = event_start(f"{self._stem}.delta", self._place) + b',"delta":'
        self._plain_tail = b',"logprobs":[]' + _NUMBER if first.kind is SectionKind.TEXT else _NUMBER

    def open(self, buffer: bytearray) -> None:
        added = {"output_index": self._number, "item": self._begun}
        self._events.write(buffer, "response.output_item.added", added)
        if self.section.kind is not SectionKind.CALL:
            self._events.write(buffer, "response.content_part.added", self._place | {"part": part_of(self.section)})

    def write(self, buffer: bytearray, text: str) -> None:
        """Appends a delta."""
        events = self._events
        self._texts.append(text)
        buffer += self._before_delta
        _encode_into(text, buffer, -1)
        buffer += b"%b%d}\n\n" % (self._plain_tail, events.num)
        events.num += 1

    def write_piece(self, buffer: bytearray, text: str, logprobs: tuple[TextLogprob, ...]) -> None:
        """Appends a delta, if there is anything in it."""
        if logprobs:
            self.section.logprobs += logprobs
            shown = b',"logprobs":' + _encode(chat_logprobs(logprobs).content)
            self._texts.append(text)
            buffer += b"%b%b%b%b%d}\n\n" % (self._before_delta, _encode(text), shown, _NUMBER, self._events.num)
            self._events.num += 1
        elif text:
            self.write(buffer, text)

    def so_far(self, status: Status) -> Item:
        return item_of(self._head, self._number, self.section, status)

    def close(self, buffer: bytearray, status: Status) -> Item:
        """Appends the events of its end, and gives it out whole."""
        self._events.write(buffer, f"{self._stem}.done", self._place | self._all_of_it())
        if self.section.kind is not SectionKind.CALL:
            self._events.write(buffer, "response.content_part.done", self._place | {"part": part_of(self.section)})
        item = self.so_far(status)
        self._events.write(buffer, "response.output_item.done", {"output_index": self._number, "item": item})
        return item

    def _all_of_it(self) -> dict[str, object]:
        match self.section.kind:
            case SectionKind.REASONING:
                return {"text": self.section.text}
            case SectionKind.TEXT:
                return {"text": self.section.text, "logprobs": chat_logprobs(self.section.logprobs).content}
            case SectionKind.CALL:
                return {"arguments": self.section.text}
