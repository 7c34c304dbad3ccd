"""Stop strings in a stream of text. The one that is complete first ends it; of two that end together, the longer does.

That rule looks at characters and never at chunks, so the answer does not depend on how the text arrived.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["StopMatcher", "StopStrings"]


@dataclass(slots=True)
class _Node:
    """A place in the strings: `depth` characters of one of them have been seen."""

    depth: int
    match: str | None = None
    steps: dict[str, "_Node"] = field(default_factory=dict)
    fallback: "_Node | None" = None  # the longest other place that the same characters lead to


class StopStrings:
    """A set of stop strings, prepared once for all choices of a request."""

    def __init__(self, strings: Sequence[str]) -> None:
        self.start = _Node(0)
        for string in strings:
            self._add(string)
        self._link()
        self.first_characters = frozenset(self.start.steps)

    def step(self, node: _Node, character: str) -> _Node:
        """Where one more character leads."""
        place: _Node | None = node
        while place is not None:
            if (found := place.steps.get(character)) is not None:
                return found
            place = place.fallback
        return self.start

    def _add(self, string: str) -> None:
        node = self.start
        for character in string:
            node = node.steps.setdefault(character, _Node(node.depth + 1))
        node.match = string

    def _link(self) -> None:
        queue = [self.start]
        for node in queue:
            for character, child in node.steps.items():
                child.fallback = self.start if node.fallback is None else self.step(node.fallback, character)
                child.match = child.match or child.fallback.match
                queue.append(child)


class StopMatcher:
    """Text in, text out, until a stop string is complete. Holds back only what could still become one."""

    def __init__(self, strings: StopStrings, *, include_stop: bool = False) -> None:
        self._strings = strings
        self._include_stop = include_stop
        self._node = strings.start
        self._held = ""
        self.matched: str | None = None
        self.num_behind = 0  # characters that were fed together with the end of what is matched, and are behind it

    @property
    def num_held(self) -> int:
        return len(self._held)

    @property
    def num_cut(self) -> int:
        """How many characters of what is matched are left out of the text."""
        return 0 if self.matched is None or self._include_stop else len(self.matched)

    def passes(self, text: str) -> bool:
        """Whether feeding this would do nothing: no stop string has begun, and none begins in it."""
        return self._node.depth == 0 and self._strings.first_characters.isdisjoint(text)

    def feed(self, text: str) -> str:
        """The text that is certain now. Nothing more comes once `matched` is set."""
        if self.passes(text):
            return text
        for place, character in enumerate(text):
            self._node = self._strings.step(self._node, character)
            if self._node.match is not None:
                self.num_behind = len(text) - place - 1
                return self._end(self._held + text[: place + 1], self._node.match)
        return self._let_out(text)

    def pass_by(self, text: str) -> str:
        """As `feed`, for text in which no stop string may end. One may begin in it."""
        for character in text:
            self._node = self._strings.step(self._node, character)
        while self._node.fallback is not None and not self._node.steps:  # nothing longer could still be met
            self._node = self._node.fallback
        return self._let_out(text)

    def finish(self) -> str:
        """The text held back, where no stop string can go on. What is fed behind it begins anew."""
        held, self._held = self._held, ""
        self._node = self._strings.start
        return held

    def _end(self, text: str, stop: str) -> str:
        self.matched = stop
        self._held = ""
        return text if self._include_stop else text[: len(text) - len(stop)]

    def _let_out(self, text: str) -> str:
        if self._include_stop:
            return text
        text = self._held + text
        certain = len(text) - self._node.depth
        self._held = text[certain:]
        return text[:certain]
