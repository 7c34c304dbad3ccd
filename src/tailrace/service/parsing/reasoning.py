"""The stage that tells reasoning from answer: it knows the two tags, and nothing of what either side says.

What of the text is markup, and in neither: the tags themselves, some white space in front of a tag that the answer
begins with, and line ends right behind a tag, which templates put between the parts. All else comes out as written, a
line end in front of the closing tag too.
"""

import re
import sys
from collections.abc import Sequence
from enum import Enum, auto

from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.segments import AnswerPiece, ReasoningPiece, Segment

__all__ = ["ReasoningStage"]

_SPACE = " \t\r\n"
_MAX_LEADING_SPACE = 256
_LINE_ENDS = "\n"


class _Place(Enum):
    BEGINNING = auto()  # nothing but white space, or a part of a tag
    REASONING = auto()
    ANSWER = auto()


class ReasoningStage:
    """Text begins as answer. Reasoning begins with the opening tag at its very beginning, and there alone.

    It ends with the closing tag, which is dropped, or where one of `interrupts` begins, which is answer. A closing tag
    at the very beginning is dropped as well: prompts and models say by it that there is no reasoning. No tag and no
    interrupt may contain the first character of any of them a second time.
    """

    def __init__(self, tags: ReasoningTags, interrupts: Sequence[str] = ()) -> None:
        self._tags = tags
        self._ends = (tags.end, *interrupts)
        self._end_pattern = re.compile("|".join(map(re.escape, self._ends)))
        self.ending_characters = frozenset(end[0] for end in self._ends)  # one begins whatever ends the reasoning
        self._longest = max(map(len, self._ends))
        self._place = _Place.BEGINNING
        self._is_behind_tag = False
        self._held = ""
        self._num_fed = 0
        self._reasoning_end = 0

    @property
    def num_held(self) -> int:
        return len(self._held)

    @property
    def is_over(self) -> bool:
        """Whether all text from here on is answer, whatever it is."""
        return self._place is _Place.ANSWER and not self._is_behind_tag

    @property
    def is_reasoning(self) -> bool:
        """Whether text is of the reasoning, if nothing in it can end that."""
        return self._place is _Place.REASONING and not self._is_behind_tag and not self._held

    @property
    def reasoning_end(self) -> int:
        """How many characters of the text belong to the reasoning, with its tags. Without a bound while it goes on."""
        return sys.maxsize if self._place is _Place.REASONING else self._reasoning_end

    def feed(self, text: str) -> list[Segment]:
        self._num_fed += len(text)
        if self._place is _Place.BEGINNING:
            return self._begin(self._held + text)
        if self._place is _Place.REASONING:
            return self._reason(text)
        return self._answer(text)

    def finish(self) -> list[Segment]:
        held, self._held = self._held, ""
        if not held:
            return []
        return [ReasoningPiece(held) if self._place is _Place.REASONING else AnswerPiece(held)]

    def _begin(self, text: str) -> list[Segment]:
        begun = text.lstrip(_SPACE)
        self._held = ""
        if len(text) - len(begun) > _MAX_LEADING_SPACE:
            begun = text
        if begun.startswith(self._tags.begin):
            self._go_to(_Place.REASONING, is_behind_tag=True)
            return self._reason(begun[len(self._tags.begin) :])
        if begun.startswith(self._tags.end):
            self._go_to(_Place.ANSWER, is_behind_tag=True)
            return self._answer(begun[len(self._tags.end) :])
        if self._tags.begin.startswith(begun) or self._tags.end.startswith(begun):
            self._held = text
            return []
        self._go_to(_Place.ANSWER)
        return self._answer(text)

    def _reason(self, text: str) -> list[Segment]:
        text = self._without_line_ends(text)
        if not self._held and self.ending_characters.isdisjoint(text):
            return [ReasoningPiece(text)] if text else []
        text = self._held + text
        end = self._end_pattern.search(text)
        if end is not None:
            return self._end(text, end)
        certain = len(text) - self._num_open(text)
        self._held = text[certain:]
        return [ReasoningPiece(text[:certain])] if certain else []

    def _end(self, text: str, end: re.Match[str]) -> list[Segment]:
        is_tag = end[0] == self._tags.end
        end_place = end.end() if is_tag else end.start()
        self._held = ""
        self._reasoning_end = self._num_fed - len(text) + end_place
        self._go_to(_Place.ANSWER, is_behind_tag=is_tag)
        reasoning: list[Segment] = [ReasoningPiece(text[: end.start()])] if end.start() else []
        return reasoning + self._answer(text[end_place:])

    def _answer(self, text: str) -> list[Segment]:
        text = self._without_line_ends(text)
        return [AnswerPiece(text)] if text else []

    def _without_line_ends(self, text: str) -> str:
        """Without those right behind a tag."""
        if self._is_behind_tag:
            text = text.lstrip(_LINE_ENDS)
            self._is_behind_tag = not text
        return text

    def _num_open(self, text: str) -> int:
        """How many of the last characters could be the beginning of what ends the reasoning."""
        for place in range(max(len(text) - self._longest + 1, 0), len(text)):
            if text[place] in self.ending_characters and any(end.startswith(text[place:]) for end in self._ends):
                return len(text) - place
        return 0

    def _go_to(self, place: _Place, *, is_behind_tag: bool = False) -> None:
        self._place = place
        self._is_behind_tag = is_behind_tag
