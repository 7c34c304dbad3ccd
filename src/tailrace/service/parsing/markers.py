"""Markers in text that arrives in pieces: where one is, and what at the end of the text could still become one."""

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Cut", "Markers", "windows"]

# Text is looked at in windows of so many characters, so that no work on a stage's buffer is longer than that.
_WINDOW = 1024


def windows(text: str) -> Sequence[str]:
    if len(text) <= _WINDOW:
        return (text,)
    return [text[at : at + _WINDOW] for at in range(0, len(text), _WINDOW)]


class Cut(NamedTuple):
    """Text that is certain to be no marker, the first marker or "", and what is behind it or could still become one."""

    text: str
    marker: str
    rest: str


class Markers:
    """Strings that are looked for. None is the beginning of another.

    Up to `num_newlines` line ends before a marker are part of it.
    """

    def __init__(self, *markers: str, num_newlines: int = 0) -> None:
        lead = f"\n{{0,{num_newlines}}}" if num_newlines else ""
        self._whole = re.compile(f"{lead}({'|'.join(map(re.escape, markers))})")
        beginnings = "|".join(_beginning(marker) for marker in markers)
        only_lead = f"|\n{{1,{num_newlines}}}" if num_newlines else ""
        self._part = re.compile(rf"(?:{lead}(?:{beginnings}){only_lead})\Z")
        self._firsts = frozenset(marker[0] for marker in markers) | frozenset("\n" if num_newlines else "")
        self._max_part = max(map(len, markers)) - 1 + num_newlines

    def are_far(self, text: str) -> bool:
        """Whether nothing in the text is of any of them: the cheapest question, and mostly the only one."""
        return self._firsts.isdisjoint(text)

    def cut(self, text: str) -> Cut:
        if self._firsts.isdisjoint(text):
            return Cut(text, "", "")
        if (found := self._whole.search(text)) is not None:
            return Cut(text[: found.start()], found[1], text[found.end() :])
        if (part := self._part.search(text, max(0, len(text) - self._max_part))) is not None:
            return Cut(text[: part.start()], "", text[part.start() :])
        return Cut(text, "", "")


def _beginning(marker: str) -> str:
    """A pattern for every beginning of it but the whole: for "abc", "a(?:b)?"."""
    pattern = ""
    for character in reversed(marker[1:-1]):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return re.escape(marker[0]) + pattern
