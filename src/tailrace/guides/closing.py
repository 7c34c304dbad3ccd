"""How an answer can be ended soon: a search for a short text that makes it whole.

It is byte by byte, over a vocabulary of bytes and special tokens, where a step takes some 20 microseconds. What it
finds is a closing, and seldom a longer one than need be; that it finds none proves nothing.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from tailrace.guides.spelling import Speller
from tailrace.guides.vocabulary import GuideVocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from numpy.typing import NDArray

__all__ = ["Closer", "Items"]

Items: TypeAlias = tuple[int, ...]
"""Tokens of the bytewise vocabulary."""

_RECENT = 64  # bytes: what was used often among them is tried after others, so that no loop is stayed in
_MANY_ITEMS = 80  # where more may follow, it is free text, in which brackets close nothing
_QUOTE = ord('"')
_BRACKETS = frozenset(b"}])>")
_SEPARATORS = frozenset(b",:")
_SPACES = frozenset(b" \t\r\n")


class _Path(NamedTuple):
    detour: float  # how much better the best steps would have looked, all together
    items: Items
    matcher: "LLMatcher"


class Closer:
    """Searches for closings in one grammar. Not for two threads at a time."""

    def __init__(self, vocabulary: GuideVocabulary, speller: Speller, endings: Sequence[str]) -> None:
        first = vocabulary.first_byte_id
        self._endings = [tuple(first + byte for byte in ending.encode()) for ending in endings]
        self._items = np.array(speller.writable, np.int64)
        self._places = {item: place for place, item in enumerate(speller.writable)}
        self._words, self._bits = self._items >> 5, (self._items & 31).astype(np.uint32)
        self._mask = np.zeros(first // 32 + 8, np.uint32)
        self._costs = {
            is_free: np.array([_cost(item - first, is_free) for item in speller.writable]) for is_free in (False, True)
        }

    def find(self, matcher: "LLMatcher", max_items: int, width: int = 1) -> Items | None:
        """What makes the text of `matcher` whole, at most `max_items` long; `width` ways are tried abreast."""
        beam = [_Path(0.0, (), matcher.deep_copy())]
        for _ in range(max_items + 1):
            whole = [path.items for path in beam if path.matcher.is_accepting()]
            if whole:
                best = min(whole, key=len)
                return best if len(best) <= max_items else None
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
        costs = np.where(allowed, self._costs[bool(np.count_nonzero(allowed) > _MANY_ITEMS)], np.inf)
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

    def _tire(self, costs: "NDArray[np.float64]", items: Items) -> None:
        for item, count in Counter(items[-_RECENT:]).items():
            if (place := self._places.get(item)) is not None:
                costs[place] += count * (1 if costs[place] >= 10 else 0.25)

    def _allowed(self, matcher: "LLMatcher") -> "NDArray[np.bool_]":
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if matcher.is_stopped():  # what it has filled in is the end
            self._mask.fill(0)
        allowed: NDArray[np.bool_] = (self._mask[self._words] >> self._bits & 1).astype(np.bool_)
        return allowed


def _cost(byte: int, is_free: bool) -> float:
    """How little a byte, or a special token (below 0), promises to lead to the end."""
    if byte < 0:
        return -2 if is_free else 6  # most are ends of something
    if byte == _QUOTE:
        return 0 if is_free else 4
    if not is_free and byte in _BRACKETS:
        return 0
    if not is_free and byte in _SEPARATORS:  # rather than another digit
        return 8
    if byte in _SPACES:
        return 40
    return 10 if byte < 128 and chr(byte).isalnum() else 24
