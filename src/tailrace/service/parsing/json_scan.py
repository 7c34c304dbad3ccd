"""JSON that arrives in pieces: where a value ends, and what the inside of a string says."""

import json
import re

__all__ = ["JsonValue", "Unescaped"]

_IN_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_STRING_MARKS = frozenset('"\\')
_OUT_OF_STRING = re.compile(r'[^"{}\[\]]*+')
_IN_SCALAR = re.compile(r"[^\s,:{}\[\]\"]*+")

_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = rf'\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}|{_SURROGATE_PAIR}'
_ESCAPES = re.compile(rf"(?:{_ESCAPE})++")
_CERTAIN = re.compile(rf"[^\\]*+(?:(?:{_ESCAPE})[^\\]*+)*+")
# What could become an escape.
_HEX = "[0-9a-fA-F]"
_LOW_PART = rf"\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?"
_PART = re.compile(rf"\\(?:u(?:{_HEX}{{0,3}}|[dD][89abAB]{_HEX}{{2}}(?:{_LOW_PART})?)?)?")


class JsonValue:
    """Finds where a value ends. It counts brackets and knows strings; that the value is valid, it does not see to."""

    def __init__(self, first: str) -> None:
        """`first` is its first character, which is fed as well."""
        self.is_in_string = False
        self._is_scalar = first not in '"{['
        self._is_escaped = False
        self._depth = 0

    def is_far(self, text: str) -> bool:
        """Whether it goes on in a string, of which the text says no end and no escape."""
        return self.is_in_string and not self._is_escaped and _STRING_MARKS.isdisjoint(text)

    def end(self, text: str) -> int | None:
        """Where in the text the value ends; None if it goes on."""
        if self._is_scalar:
            return self._end_of(_IN_SCALAR, text, 0)
        at = 0
        while at < len(text):
            at = self._string(text, at) if self.is_in_string else self._structure(text, at)
            if self._depth == 0 and not self.is_in_string:
                return at
        return None

    def _string(self, text: str, at: int) -> int:
        """To the end of the string, and past it."""
        at += self._is_escaped
        end = self._end_of(_IN_STRING, text, at)
        self._is_escaped = end is not None and text[end] == "\\"  # the last character of the text
        if end is None or self._is_escaped:
            return len(text)
        self.is_in_string = False
        return end + 1

    def _structure(self, text: str, at: int) -> int:
        end = self._end_of(_OUT_OF_STRING, text, at)
        if end is None:
            return len(text)
        if text[end] == '"':
            self.is_in_string = True
        else:
            self._depth += 1 if text[end] in "{[" else -1
        return end + 1

    @staticmethod
    def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int | None:
        found = pattern.match(text, at)
        return found.end() if found and found.end() < len(text) else None


class Unescaped:
    """The text that the inside of a string stands for. What is no escape, or half a character, stays as it is."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        said = []
        while True:
            certain = _CERTAIN.match(text)
            end = certain.end() if certain else 0
            said.append(_ESCAPES.sub(_read_escapes, text[:end]))
            text = text[end:]
            if _PART.fullmatch(text) or not text:
                break
            said.append(text[0])  # a backslash that begins no escape
            text = text[1:]
        self._held = text
        return "".join(said)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def _read_escapes(escapes: re.Match[str]) -> str:
    return str(json.loads(f'"{escapes[0]}"'))
