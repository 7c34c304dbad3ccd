"""Tool calls between tags, each an object of JSON, as Hermes and Qwen write them.

A tag in a string of the arguments is text. A line that begins with one ends the call all the same: no string of JSON
goes on in another line.
"""

from tailrace.service.parsing.call_object import CallObject, Members, Progress
from tailrace.service.parsing.markers import Markers, windows
from tailrace.service.parsing.segments import AnswerPiece, CallGoesOn, Segment

__all__ = ["CALL_TAG", "END_TAG", "HermesCalls"]

CALL_TAG, END_TAG = "<tool_call>", "</tool_call>"

_MEMBERS = Members(arguments=("arguments",))
_TAGS = Markers(CALL_TAG, END_TAG)
_TAGS_ON_LINES = Markers(CALL_TAG, END_TAG, num_newlines=1)
_SPACE = " \t\r\n"


class HermesCalls:
    def __init__(self) -> None:
        self._text = ""
        self._skipped = ""  # characters that are of the markup here
        self._call: CallObject | None = None
        self._is_after_newline = False  # in the call
        self._num_calls = 0
        self._segments: list[Segment] = []

    @property
    def num_held(self) -> int:
        return len(self._text) + (self._call.num_held if self._call is not None else 0)

    def feed(self, text: str) -> list[Segment]:
        if not self._text and (passing := self._passing(text)) is not None:
            return [passing]
        for window in windows(text):
            self._text += window
            self._read_on()
        return self._take_segments()

    def finish(self) -> list[Segment]:
        while self._call is not None:
            self._feed_call(self._call, self._text)
            self._text = ""
            self._leave(self._call)
            self._read_on()
        if not self._skipped:  # where the beginning of a tag is no text
            self._put(self._text)
        self._text = ""
        return self._take_segments()

    def _passing(self, text: str) -> Segment | None:
        """What the text is, where it needs no reading."""
        if self._call is None:
            return AnswerPiece(text) if text and not self._skipped and _TAGS_ON_LINES.are_far(text) else None
        if text and _TAGS.are_far(text) and self._call.may_pass(text):
            self._is_after_newline = text.endswith("\n")
            return CallGoesOn(self._num_calls, text)
        return None

    def _take_segments(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        return segments

    def _put(self, text: str) -> None:
        if text:
            self._segments.append(AnswerPiece(text))
            self._skipped = ""

    def _read_on(self) -> None:
        while self._read_answer() if self._call is None else self._read_call(self._call):
            pass

    def _read_answer(self) -> bool:
        if self._skipped:
            self._text = self._text.lstrip(self._skipped)
        text, tag, self._text = _TAGS_ON_LINES.cut(self._text)
        self._put(text)
        if tag:
            self._skipped = _SPACE
        if tag == CALL_TAG:
            self._call = CallObject(self._num_calls, _MEMBERS)
        return bool(tag)

    def _read_call(self, call: CallObject) -> bool:
        text, tag, rest = _TAGS.cut(self._text)
        self._feed_call(call, text)
        is_text = call.is_in_string and not self._is_after_newline
        if is_text:
            self._feed_call(call, tag or rest)
            self._text = rest if tag else ""
        else:
            self._text = tag + rest
        if call.progress is not Progress.READING or (tag and not is_text):
            self._leave(call)
            return True
        return is_text and bool(self._text)

    def _feed_call(self, call: CallObject, text: str) -> None:
        if text:
            self._segments += call.feed(text)
            self._is_after_newline = text.endswith("\n")

    def _leave(self, call: CallObject) -> None:
        if call.progress is Progress.READING:
            self._segments += call.cut_off()
        self._call = None
        self._num_calls += call.is_call
        self._skipped = _SPACE + "}" * call.is_call
        self._put(call.answer.replace(CALL_TAG, "").replace(END_TAG, "").lstrip(_SPACE))
        self._text = call.rest + self._text
