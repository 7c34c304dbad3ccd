"""How an answer can be ended soon: a search for a short text that makes it whole.

It is byte by byte, over a vocabulary of bytes and special tokens, where a step takes some 20 microseconds. What it
finds is a closing, and seldom a longer one than need be; that it finds none proves nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tailrace.errors import GuideError
from tailrace.guides.vocabulary import GuideVocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from numpy.typing import NDArray

__all__ = ["Closer", "Items", "completes"]

Items: TypeAlias = tuple[int, ...]
"""Tokens of the bytewise vocabulary."""

_RECENT = 64  # bytes: what was used often among them is tried after others, so that no loop is stayed in
_MANY_ITEMS = 80  # where more may follow, it is free text, in which brackets close nothing
_MAX_LOOKS = 4096  # at what may follow, in one search: a fifth of a second
_MAX_SEARCH_S = 2.0  # steps of all requests wait for it; only a grammar made for that comes near


class _Kind(IntEnum):
    SPECIAL = 0
    BRACKET = 1
    QUOTE = 2
    SEPARATOR = 3
    DIGIT = 4
    LOWER = 5
    UPPER = 6
    OTHER = 7
    HIGH = 8
    SIGN = 9  # of numbers, which need none
    SPACE = 10


_LISTED = {
    _Kind.BRACKET: b"}])>",
    _Kind.QUOTE: b'"',
    _Kind.SEPARATOR: b",:",
    _Kind.SIGN: b"+-.",
    _Kind.SPACE: b" \t\r\n",
}
_BASES = np.array([5.0, 0, 4, 5, 8, 8, 8, 8, 12, 16, 30])
_WEIGHTS = np.array([1.0, 0, 0, 1, 0.3, 1, 1, 1, 1, 1, 0])
_BASES_IN_TEXT = np.array([-2.0, 24, 0, 24, 10, 10, 10, 24, 30, 24, 40])


class _Path(NamedTuple):
    detour: float  # how much better the best steps would have looked, all together
    items: Items
    matcher: "LLMatcher"


def completes(matcher: "LLMatcher", items: Items) -> bool:
    """Whether this makes its text whole."""
    ended = matcher.deep_copy()
    return ended.try_consume_tokens(list(items)) == len(items) and ended.is_accepting()


class Closer:
    """Searches for closings in one grammar. Not for two threads at a time."""

    def __init__(
        self, vocabulary: GuideVocabulary, endings: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        first, writable = vocabulary.first_byte_id, vocabulary.speller.writable
        self._endings = [tuple(first + byte for byte in ending.encode()) for ending in endings]
        self._quote = first + ord('"')
        self._items = np.array(writable, np.int64)
        self._places = {item: place for place, item in enumerate(writable)}
        self._words, self._bits = self._items >> 5, (self._items & 31).astype(np.uint32)
        self._mask = np.zeros(first // 32 + 8, np.uint32)
        self._kinds = np.where(self._items < first, _Kind.SPECIAL, _KINDS[np.maximum(self._items - first, 0)])

    def find(self, matcher: "LLMatcher", max_items: int, width: int = 1, tail: Items = ()) -> Items | None:
        """What makes the text of `matcher` whole, at most `max_items` long; `width` ways are tried abreast.

        `tail` made it whole a little while ago: a way that leads to where it does so again is long enough. Raises
        GuideError for a grammar that it takes too long to find a way through.
        """
        due_s = self._clock() + _MAX_SEARCH_S
        beam = [_Path(0.0, (), matcher.deep_copy())]
        for _ in range(min(max_items - len(tail), _MAX_LOOKS // width) + 1):
            whole = [path.items for path in beam if path.matcher.is_accepting()]
            if tail and not whole:
                whole = [path.items + tail for path in beam if completes(path.matcher, tail)]
            if whole:
                best = min(whole, key=len)
                return best if len(best) <= max_items else None
            if self._clock() > due_s:
                raise GuideError("the grammar is too complex: it takes too long to find an end of its answers")
            beam = self._advanced(beam, width)
        return None

    def _advanced(self, beam: list[_Path], width: int) -> list[_Path]:
        steps = [
            (path.detour + detour, place, step)
            for place, path in enumerate(beam)
            for detour, step in self._steps(path, width)
        ]
        advanced: list[_Path] = []
        for detour, place, step in sorted(steps):
            matcher = beam[place].matcher.deep_copy()
            if matcher.try_consume_tokens(list(step)) == len(step):
                advanced.append(_Path(detour, beam[place].items + step, matcher))
            if len(advanced) == width:
                break
        return advanced

    def _steps(self, path: _Path, count: int) -> list[tuple[float, Items]]:
        """What best follows, each with how much worse it is than the first."""
        allowed = self._allowed(path.matcher)
        if not allowed.any():
            return []
        costs = self._promises(allowed)
        self._tire(costs, path.items)
        best = np.argsort(costs, kind="stable")[:count] if count > 1 else [int(np.argmin(costs))]
        steps: list[tuple[float, Items]] = [
            (float(costs[place]), (int(self._items[place]),)) for place in best if costs[place] < np.inf
        ]
        steps += [
            (5.0 + path.items[-_RECENT:].count(ending[0]), ending)
            for ending in self._endings
            if allowed[self._places[ending[0]]]
        ]
        least = min(cost for cost, _ in steps)
        return [(cost - least, step) for cost, step in steps]

    def _promises(self, allowed: "NDArray[np.bool_]") -> "NDArray[np.float64]":
        """How little each item promises to lead to the end: what stands alone leads out, the many go on and on."""
        counts = np.bincount(self._kinds[allowed], minlength=len(_BASES))
        is_free = counts.sum() > _MANY_ITEMS
        costs = _BASES_IN_TEXT if is_free else _BASES + np.minimum(counts, 30) * _WEIGHTS
        return np.where(allowed, costs[self._kinds], np.inf)

    def _tire(self, costs: "NDArray[np.float64]", items: Items) -> None:
        if items[-2:] == (self._quote, self._quote) and self._quote in self._places:
            costs[self._places[self._quote]] += 24  # it has closed nothing
        for item, count in Counter(items[-_RECENT:]).items():
            if (place := self._places.get(item)) is not None:
                costs[place] += count * (1 if costs[place] >= 10 else 0.25)

    def _allowed(self, matcher: "LLMatcher") -> "NDArray[np.bool_]":
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if matcher.is_stopped():  # what it has filled in is the end
            self._mask.fill(0)
        allowed: NDArray[np.bool_] = (self._mask[self._words] >> self._bits & 1).astype(np.bool_)
        return allowed


def _kind(byte: int) -> int:
    listed = next((kind for kind, of_kind in _LISTED.items() if byte in of_kind), None)
    if listed is not None:
        return listed
    if byte >= 128:
        return _Kind.HIGH
    if not chr(byte).isalnum():
        return _Kind.OTHER
    return _Kind.DIGIT if chr(byte).isdigit() else _Kind.LOWER if chr(byte).islower() else _Kind.UPPER


_KINDS = np.array([_kind(byte) for byte in range(256)])
