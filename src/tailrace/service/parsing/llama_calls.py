"""Tool calls as Llama 3 writes them: bare objects of JSON at the very beginning of the answer, or behind a token.

An object that is not of a call's members is an answer in JSON, and comes out from the character that shows it.
"""

from collections.abc import Callable

from tailrace.service.parsing.call_object import CallObject, Members, Progress
from tailrace.service.parsing.markers import Markers, windows
from tailrace.service.parsing.segments import AnswerPiece, CallGoesOn, Segment

__all__ = ["PYTHON_TAG", "LlamaCalls"]

PYTHON_TAG = "<|python_tag|>"

_MEMBERS = Members(arguments=("parameters", "arguments"), others=("type",))
_TAG = Markers(PYTHON_TAG)
_SPACE = " \t\r\n"
_MAX_LEADING_SPACE = 256


class LlamaCalls:
    def __init__(self) -> None:
        self._text = ""
        self._leading_space = ""  # of the answer, unless that begins with a call
        self._read: Callable[[], bool] = self._read_beginning
        self._call = CallObject(0, _MEMBERS)
        self._num_calls = 0
        self._segments: list[Segment] = []

    @property
    def num_held(self) -> int:
        return len(self._text) + len(self._leading_space) + self._call.num_held

    def feed(self, text: str) -> list[Segment]:
        if text and not self._text and self._call.may_pass(text):
            return [CallGoesOn(self._num_calls, text)]
        for window in windows(text):
            self._text += window
            self._read_on()
        return self._take_segments()

    def finish(self) -> list[Segment]:
        while self._read == self._read_call:
            self._segments += self._call.cut_off()
            self._leave_call()
            self._read_on()
        self._put(self._text)
        self._text = ""
        return self._take_segments()

    def _read_on(self) -> None:
        while self._read():
            pass

    def _take_segments(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        return segments

    def _put(self, text: str) -> None:
        if text := self._leading_space + text:
            self._segments.append(AnswerPiece(text))
        self._leading_space = ""

    def _read_beginning(self) -> bool:
        text = self._text.lstrip(_SPACE)
        num_spaces = len(self._text) - len(text)
        if num_spaces <= _MAX_LEADING_SPACE and _could_be(text, "{", PYTHON_TAG):
            if not text.startswith(("{", PYTHON_TAG)):
                return False
            self._leading_space, self._text = self._text[:num_spaces], text
            self._read = self._read_next
        else:
            self._read = self._read_answer
        return True

    def _read_next(self) -> bool:
        """Where a call may begin."""
        self._text = self._text.lstrip(_SPACE + ";")
        if self._text.startswith("{"):
            self._call = CallObject(self._num_calls, _MEMBERS)
            self._read = self._read_call
        elif not _could_be(self._text, PYTHON_TAG):
            self._read = self._read_answer
        elif self._text.startswith(PYTHON_TAG):
            self._text = self._text.removeprefix(PYTHON_TAG)
        else:
            return False
        return True

    def _read_answer(self) -> bool:
        text, tag, self._text = _TAG.cut(self._text)
        if text:
            self._put(text)
        if tag:
            self._read = self._read_next
        return bool(tag)

    def _read_call(self) -> bool:
        self._segments += self._call.feed(self._text)
        self._text = ""
        if self._call.is_call:
            self._leading_space = ""
        if self._call.progress is Progress.READING:
            return False
        self._leave_call()
        return True

    def _leave_call(self) -> None:
        call, self._call = self._call, CallObject(0, _MEMBERS)
        self._num_calls += call.is_call
        self._read = self._read_next if call.progress is Progress.ENDED else self._read_answer
        if call.answer:
            self._put(call.answer.replace(PYTHON_TAG, ""))
        self._text = call.rest


def _could_be(text: str, *beginnings: str) -> bool:
    """Whether it begins with one of these, or could yet."""
    return any(text.startswith(each) or each.startswith(text) for each in beginnings)
