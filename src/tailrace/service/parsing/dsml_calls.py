"""Tool calls in DSML. Parameters become JSON as they come: what is marked as a string is escaped, all else stays as is.

No tag reaches the client, nor white space behind one, nor two line ends before one. Between the tags of a call, other
text is of the answer, unless it is an object that stands for all parameters.
"""

from enum import Enum, auto
from json import JSONEncoder

from tailrace.service.parsing.dsml_tags import BLOCK_NAMES, CLOSING, OPENING, BadTag, Tag, read_tag, read_unfinished
from tailrace.service.parsing.markers import Markers, windows
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, Segment

__all__ = ["DsmlCalls"]

_TAGS = Markers(OPENING, CLOSING, num_newlines=2)
_QUOTE = '"'
_JSON = JSONEncoder(ensure_ascii=False)
# In a value, all else that looks like a tag is text.
_ENDING = ("parameter", "invoke", *BLOCK_NAMES)
_VALUE_ENDS = Markers(*(f"{CLOSING}{space}{kind}>" for kind in _ENDING for space in ("", " ")))


class _Place(Enum):
    """Where text stands that is of no tag."""

    ANSWER = auto()
    CALL = auto()  # between its tags
    OBJECT = auto()  # which stands there instead of parameters
    STRING = auto()
    VALUE = auto()  # of a parameter that is no string


class DsmlCalls:
    def __init__(self) -> None:
        self._text = ""
        self._opening = ""  # of the tag that is read now
        self._is_behind_markup = False
        self._passing: Markers | None = None  # all text passes that is far from these
        self._place = _Place.ANSWER
        self._num_calls = 0
        self._num_parameters = 0  # of this call
        self._segments: list[Segment] = []

    @property
    def num_held(self) -> int:
        return len(self._opening) + len(self._text)

    def feed(self, text: str) -> list[Segment]:
        if not self._text and self._passing is not None and self._passing.are_far(text):
            self._put(text)
            return self._take_segments()
        for window in windows(text):
            self._text += window
            while self._read():
                pass
        return self._take_segments()

    def finish(self) -> list[Segment]:
        if self._opening == OPENING:
            self._put_unfinished_tag()
        elif self._opening:
            self._end_call()
            self._put_unfinished_tag()
        elif self._text.startswith(CLOSING):  # in a value
            self._put_arguments(_QUOTE * (self._place is _Place.STRING))
        elif not self._is_behind_markup:  # where the beginning of a tag is no text
            self._put(self._text)
        self._text = self._opening = ""
        return self._take_segments()

    def _take_segments(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        return segments

    def _put(self, text: str) -> None:
        if self._place is _Place.STRING:
            self._put_arguments(_escaped(text))
        elif self._place is _Place.VALUE or self._place is _Place.OBJECT:
            self._put_arguments(text)
        elif text:
            self._segments.append(AnswerPiece(text))

    def _put_arguments(self, text: str) -> None:
        if text:
            self._segments.append(CallGoesOn(self._num_calls - 1, text))

    def _put_unfinished_tag(self) -> None:
        """Of its markup nothing, and of its name what there is."""
        name, is_whole, rest = read_unfinished(self._text)
        if name and self._place is _Place.CALL:
            self._put_arguments(self._before_parameter() + _QUOTE + _escaped(name) + f"{_QUOTE}: " * is_whole)
        else:
            self._put(name)
        self._put(rest)

    def _before_parameter(self) -> str:
        return ", " if self._num_parameters else "{"

    def _read(self) -> bool:
        if self._opening:
            return self._read_tag()
        if self._place is _Place.STRING or self._place is _Place.VALUE:
            return self._read_value()
        return self._read_text()

    def _read_text(self) -> bool:
        """All that stands before the next tag."""
        if self._is_behind_markup:
            self._text = self._text.lstrip()
            if self._place is _Place.CALL and not self._num_parameters and self._text.startswith("{"):
                self._place = _Place.OBJECT
        text, self._opening, self._text = _TAGS.cut(self._text)
        self._put(text)
        self._is_behind_markup = bool(self._opening) or (self._is_behind_markup and not text)
        self._passing = None if self._is_behind_markup else _TAGS
        return bool(self._opening)

    def _read_tag(self) -> bool:
        try:
            tag = read_tag(self._opening, self._text)
        except BadTag:  # what opened it is dropped
            self._opening = ""
            return True
        if tag is None:
            return False
        self._opening, self._text = "", self._text[tag.num_characters :]
        self._meet(tag)
        return True

    def _meet(self, tag: Tag) -> None:
        if tag.kind == "parameter" and self._place is _Place.CALL:
            if tag.is_opening:
                self._begin_parameter(tag)
            return
        self._end_call()
        if tag.kind == "invoke" and tag.is_opening:
            self._begin_call(tag)

    def _begin_call(self, tag: Tag) -> None:
        self._segments.append(CallBegins(self._num_calls, tag.name))
        self._num_calls += 1
        self._num_parameters = 0
        self._place = _Place.CALL
        if tag.is_empty:
            self._end_call()

    def _end_call(self) -> None:
        if self._place is _Place.CALL:
            self._put_arguments("}" if self._num_parameters else "{}")
        self._place = _Place.ANSWER

    def _begin_parameter(self, tag: Tag) -> None:
        is_string = tag.attributes.get("string", "").lower() != "false"
        self._put_arguments(f'{self._before_parameter()}"{_escaped(tag.name)}": {_QUOTE * is_string}')
        self._num_parameters += 1
        if tag.is_empty:
            self._put_arguments(_QUOTE if is_string else "null")
        else:
            self._place = _Place.STRING if is_string else _Place.VALUE

    def _read_value(self) -> bool:
        text, end, self._text = _VALUE_ENDS.cut(self._text)
        self._put(text)
        self._is_behind_markup = False
        self._passing = None if end else _VALUE_ENDS
        if end:
            self._end_value(end)
        return bool(end)

    def _end_value(self, end: str) -> None:
        self._put_arguments(_QUOTE * (self._place is _Place.STRING))
        self._is_behind_markup = True
        self._place = _Place.CALL
        if "parameter" not in end:
            self._end_call()


def _escaped(text: str) -> str:
    """As the inside of a string of JSON."""
    return _JSON.encode(text)[1:-1]
