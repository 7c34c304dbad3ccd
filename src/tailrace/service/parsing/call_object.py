"""The JSON object that is a call, read while it arrives: the function's name, and the characters of its arguments."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tailrace.service.parsing.json_scan import JsonValue, Unescaped
from tailrace.service.parsing.segments import CallBegins, CallGoesOn, Segment

__all__ = ["CallObject", "Members", "Progress"]

_MAX_STRING_CHARACTERS = 256  # of a key, or a name
_MAX_HELD_CHARACTERS = 1 << 16  # arguments that come before their name wait for it
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Members:
    """What the arguments may be called. With `others`, only these may come before them, and no call is without."""

    arguments: Sequence[str]
    others: Sequence[str] | None = None

    def has(self, key: str) -> bool:
        return self.others is None or key in self._names

    def may_begin(self, text: str) -> bool:
        """Whether the key of one may begin so."""
        return self.others is None or any(name.startswith(text) for name in self._names)

    @property
    def _names(self) -> Sequence[str]:
        return "name", *self.arguments, *(self.others or ())


class Progress(Enum):
    READING = auto()
    ENDED = auto()
    FAILED = auto()


class _Malformed(Exception):
    """This will not become the object of a call."""


class CallObject:
    """Members come in any order; what is neither name nor arguments is dropped. A string is no more than what it says.

    An object that goes wrong before its name is no call, and one that goes wrong between name and arguments has all the
    rest of it as arguments. When reading is over, `answer` was read but belongs to no call, and `rest` was not read.
    """

    def __init__(self, number: int, members: Members) -> None:
        self._number, self._members = number, members
        self.progress = Progress.READING
        self.is_call = False
        self.answer = self.rest = ""
        self._text = ""  # not read yet
        self._used: list[str] = []  # read, and answer if this fails
        self._num_used = 0
        self._read: Callable[[], bool] = self._read_begin
        self._key = self._name = ""
        self._waiting: list[str] = []  # arguments that came before the name
        self._has_arguments = False
        self._value = JsonValue("{")
        self._unescaped: Unescaped | None = None
        self._is_passing = False  # all goes out that is read
        self._segments: list[Segment] = []

    @property
    def num_held(self) -> int:
        return len(self._text) + self._num_used

    @property
    def is_in_string(self) -> bool:
        is_in_name = bool(self._text) and self._read in (self._read_key, self._read_name)
        return self.progress is Progress.READING and (is_in_name or self._value.is_in_string)

    def may_pass(self, text: str) -> bool:
        """Whether the text is of the arguments, as it is, and changes nothing."""
        return self._is_passing and self._value.is_far(text)

    def feed(self, text: str) -> list[Segment]:
        self._text += text
        try:
            while self.progress is Progress.READING and self._read():
                pass
        except _Malformed:
            self._fail()
        return self._take_segments()

    def cut_off(self) -> list[Segment]:
        """No more of it comes."""
        if self._unescaped is not None:
            self._put(self._unescaped.finish())
        if self.is_call:
            self.progress = Progress.ENDED
        else:
            self._fail()
        return self._take_segments()

    def _take_segments(self) -> list[Segment]:
        segments, self._segments = self._segments, []
        return segments

    def _fail(self) -> None:
        if self.is_call and not self._has_arguments:
            self._put("".join(self._used) + self._text)
            self._settle()
            self._text = ""
            self._value, self._read = JsonValue("{"), self._read_anything
        else:
            self.progress = Progress.FAILED
            self.answer, self.rest = "".join(self._used), self._text

    def _settle(self) -> None:
        """What has been read is certain."""
        self._used.clear()
        self._num_used = 0

    def _use(self, num_characters: int) -> str:
        """So much has been read."""
        is_too_long = self._num_used + num_characters > _MAX_HELD_CHARACTERS
        if is_too_long:  # cut at this very character, however the text came
            num_characters = _MAX_HELD_CHARACTERS - self._num_used
        used, self._text = self._text[:num_characters], self._text[num_characters:]
        self._used.append(used)
        self._num_used += num_characters
        if is_too_long:
            raise _Malformed
        return used

    def _next(self) -> str:
        """The next character that is no white space, or ""."""
        if (space := _SPACE.match(self._text)) is not None and space.end():
            self._use(space.end())
        return self._text[:1]

    def _read_begin(self) -> bool:
        return self._read_mark({"{": self._read_key_or_end})

    def _read_mark(self, marks: dict[str, Callable[[], bool]]) -> bool:
        """One of these is next, and what comes then."""
        if not (mark := self._next()):
            return False
        if mark not in marks:
            raise _Malformed
        self._use(1)
        self._read = marks[mark]
        return True

    def _read_key_or_end(self) -> bool:
        if self._next() == '"':
            self._read = self._read_key
            return True
        return self._read_mark({"}": self._end})

    def _end(self) -> bool:
        if not self.is_call:
            raise _Malformed
        self.progress, self.rest = Progress.ENDED, self._text
        return False

    def _read_key(self) -> bool:
        key = self._string()
        if key is None:
            if not self._members.may_begin(self._text[1:]):
                raise _Malformed
            return False
        if not self._members.has(key):
            raise _Malformed
        self._use_string()
        self._key = key
        self._read = self._read_colon
        return True

    def _string(self) -> str | None:
        """A string, when it is complete."""
        found = _STRING.match(self._text)
        if (found.end() if found else len(self._text)) > _MAX_STRING_CHARACTERS + 2:
            raise _Malformed
        if found is None:
            return None
        try:
            said = str(json.loads(found[0], strict=False))
            said.encode()  # half a character is no text
        except ValueError:
            raise _Malformed from None
        return said

    def _use_string(self) -> None:
        if (found := _STRING.match(self._text)) is not None:
            self._use(found.end())

    def _read_colon(self) -> bool:
        return self._read_mark({":": self._read_value})

    def _read_value(self) -> bool:
        if not (first := self._next()):
            return False
        if self._key == "name":
            if self._name or first != '"':
                raise _Malformed
            self._read = self._read_name
        elif self._key in self._members.arguments:
            self._begin_arguments(first)
        else:
            self._value, self._read = JsonValue(first), self._read_other
        return True

    def _read_name(self) -> bool:
        name = self._string()
        if name is None:
            return False
        self._name = name.strip()
        if not self._name:
            raise _Malformed
        self._use_string()
        self._read = self._read_comma
        self._let_out()
        return True

    def _let_out(self) -> None:
        """Say that it is a call, if that is certain now."""
        if self.is_call or not self._name or not (self._has_arguments or self._members.others is None):
            return
        self.is_call = True
        self._segments.append(CallBegins(self._number, self._name))
        self._put("".join(self._waiting))
        self._waiting.clear()
        self._settle()

    def _read_comma(self) -> bool:
        return self._read_mark({",": self._read_key_or_end, "}": self._end})

    def _read_other(self) -> bool:
        end = self._value.end(self._text)
        self._use(len(self._text) if end is None else end)
        if end is not None:
            self._read = self._read_comma
        return end is not None

    def _begin_arguments(self, first: str) -> None:
        if self._has_arguments:
            raise _Malformed
        self._has_arguments = True
        self._let_out()
        if self.is_call:
            self._settle()
        self._value, self._read = JsonValue(first), self._read_arguments
        if first == '"':
            self._value.end(self._use(1))
            self._unescaped = Unescaped()
        self._is_passing = self.is_call and self._unescaped is None

    def _read_arguments(self) -> bool:
        end = self._value.end(self._text)
        said = self._use(len(self._text) if end is None else end)
        if self._unescaped is not None:
            said = self._unescaped.feed(said if end is None else said[:-1])
        self._put(said)
        if self.is_call:
            self._settle()
        if end is None:
            return False
        self._is_passing = False
        if self._unescaped is not None:
            self._put(self._unescaped.finish())
            self._unescaped = None
        self._read = self._read_comma
        return True

    def _put(self, arguments: str) -> None:
        if not arguments:
            return
        if self.is_call:
            self._segments.append(CallGoesOn(self._number, arguments))
        else:
            self._waiting.append(arguments)

    def _read_anything(self) -> bool:
        self._put(self._text)
        self._text = ""
        return False
