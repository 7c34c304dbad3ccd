"""Tuples in order, of which any can be taken out at once: nothing is left behind to be skipped or swept later."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

__all__ = ["SortedSet"]

MAX_PIECE = 512

Item = TypeVar("Item", bound=tuple[Any, ...])


class SortedSet(Generic[Item]):
    """Distinct tuples, in pieces of at most 512.

    To add or remove one takes two bisections and moves the pointers of one piece and, when a piece comes or goes, those
    of the list of pieces. A heap would need its dead counted and swept, all at once, in the middle of some step.
    """

    def __init__(self) -> None:
        self._pieces: list[list[Item]] = []
        self._lasts: list[Item] = []  # of each piece
        self._len = 0

    def __len__(self) -> int:
        return self._len

    def __iter__(self) -> Iterator[Item]:
        return chain.from_iterable(self._pieces)

    @property
    def first(self) -> Item:
        return self._pieces[0][0]

    @property
    def last(self) -> Item:
        return self._lasts[-1]

    def add(self, item: Item) -> None:
        """Put in an item that is not there yet."""
        self._len += 1
        index = bisect_left(self._lasts, item)
        if index < len(self._lasts):
            piece = self._pieces[index]
            insort(piece, item)
        elif index:
            index -= 1
            piece = self._pieces[index]
            piece.append(item)
            self._lasts[index] = item
        else:
            self._pieces.append([item])
            self._lasts.append(item)
            return
        if len(piece) > MAX_PIECE:
            self._split(index)

    def remove(self, item: Item) -> None:
        """Take out an item that is there."""
        index = bisect_left(self._lasts, item)
        piece = self._pieces[index]
        place = bisect_left(piece, item)
        assert piece[place] == item, "it is not there"
        del piece[place]
        self._len -= 1
        if not piece:
            del self._pieces[index], self._lasts[index]
        elif place == len(piece):
            self._lasts[index] = piece[-1]

    def _split(self, index: int) -> None:
        piece = self._pieces[index]
        half = len(piece) // 2
        self._pieces.insert(index + 1, piece[half:])
        del piece[half:]
        self._lasts.insert(index, piece[-1])
