"""Tool calls between DeepSeek's control tokens, as V3, R1 and V3.1 write them.

Control tokens never reach the client, wherever they are; nor does white space right behind one.
"""

from collections.abc import Callable
from typing import NamedTuple

from tailrace.service.parsing.markers import Markers, windows
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, Segment

__all__ = ["CALLS_BEGIN", "CALL_BEGIN", "CONTROL_TOKENS", "DeepSeekCalls", "v3_calls", "v31_calls"]

CALLS_BEGIN, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL_BEGIN, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"

_MAX_NAME_CHARACTERS = 256
CONTROL_TOKENS = (CALL_END, CALLS_END, CALL_BEGIN, CALLS_BEGIN, SEPARATOR)
_CONTROLS = Markers(*CONTROL_TOKENS)
_NAME_ENDS = Markers("\n", *CONTROL_TOKENS)
_OPENING_FENCE = "```json"


class _Header(NamedTuple):
    """What names the function, and the text behind it."""

    name: str
    rest: str


class _NoHeader(Exception):
    """What stands there will not become a header."""


def _v31_header(text: str) -> _Header | None:
    """`NAME<｜tool▁sep｜>`"""
    name, marker, rest = _CONTROLS.cut(text)
    return _Header(name, rest) if _is_over(name, marker, SEPARATOR) else None


def _v3_header(text: str) -> _Header | None:
    """`function<｜tool▁sep｜>NAME` and a line end."""
    kind, marker, rest = _CONTROLS.cut(text)
    if not _is_over(kind, marker, SEPARATOR):
        return None
    name, marker, rest = _NAME_ENDS.cut(rest)
    return _Header(name, rest) if _is_over(name, marker, "\n") else None


def _is_over(text: str, marker: str, wanted: str) -> bool:
    """Whether a part of a header is complete; raises when it never will be."""
    if len(text) > _MAX_NAME_CHARACTERS or (marker and (marker != wanted or not text.strip())):
        raise _NoHeader
    return bool(marker)


class DeepSeekCalls:
    def __init__(self, header: Callable[[str], _Header | None], ends: Markers, fence: str) -> None:
        self._header, self._ends, self._fence = header, ends, fence
        self._text = ""
        self._is_behind_markup = False
        self._read: Callable[[], bool] = self._read_answer
        self._passing: Markers | None = None  # all text passes that is far from these
        self._num_calls = 0
        self._segments: list[Segment] = []

    @property
    def num_held(self) -> int:
        return len(self._text)

    def feed(self, text: str) -> list[Segment]:
        if text and not self._text and self._passing is not None and self._passing.are_far(text):
            return [self._segment(text)]
        for window in windows(text):
            self._text += window
            self._read_on()
        return self._take_segments()

    def finish(self) -> list[Segment]:
        while self._read == self._read_header:
            self._read = self._read_answer
            self._read_on()
        is_markup = self._read == self._read_fence or self._is_behind_markup  # what has begun there is of it
        if self._text and not is_markup:
            self._segments.append(self._segment(self._text))
        self._text = ""
        return self._take_segments()

    def _read_on(self) -> None:
        while self._read():
            pass

    def _take_segments(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        return segments

    def _segment(self, text: str) -> Segment:
        return AnswerPiece(text) if self._read == self._read_answer else CallGoesOn(self._num_calls - 1, text)

    def _read_answer(self) -> bool:
        marker = self._pass_on(_CONTROLS)
        if marker == CALL_BEGIN:
            self._read = self._read_header
        return bool(marker)

    def _read_header(self) -> bool:
        try:
            header = self._header(self._text)
        except _NoHeader:  # all of it is answer
            self._read = self._read_answer
            return True
        if header is None:
            return False
        self._segments.append(CallBegins(self._num_calls, header.name.strip()))
        self._num_calls += 1
        self._text = header.rest
        self._is_behind_markup = True
        self._read = self._read_fence if self._fence else self._read_arguments
        return True

    def _read_fence(self) -> bool:
        self._text = self._text.lstrip()
        if len(self._text) < len(self._fence) and self._fence.startswith(self._text):
            return False
        fence = self._fence if self._text.startswith(self._fence) else "```"
        self._text = self._text.removeprefix(fence)
        self._read = self._read_arguments
        return True

    def _read_arguments(self) -> bool:
        marker = self._pass_on(self._ends)
        if marker and marker != SEPARATOR:
            self._read = self._read_header if marker == CALL_BEGIN else self._read_answer
        return bool(marker)

    def _pass_on(self, ends: Markers) -> str:
        """Give out the text before the next marker, or all that is certain."""
        if self._is_behind_markup:
            self._text = self._text.lstrip()
        text, marker, self._text = ends.cut(self._text)
        if text:
            self._segments.append(self._segment(text))
        self._is_behind_markup = bool(marker) or (self._is_behind_markup and not text)
        self._passing = None if self._is_behind_markup else ends
        return marker


def v3_calls() -> DeepSeekCalls:
    # No JSON has a line that begins with a fence: what is behind one is no argument.
    return DeepSeekCalls(_v3_header, Markers("\n```", "```" + CALL_END, *CONTROL_TOKENS), _OPENING_FENCE)


def v31_calls() -> DeepSeekCalls:
    return DeepSeekCalls(_v31_header, _CONTROLS, fence="")
