"""Tuples in order which mostly come in order."""

from collections import OrderedDict
from collections.abc import Iterator
from heapq import merge
from typing import Any, Generic, TypeVar

from tailrace.scheduler.sorted_set import SortedSet

__all__ = ["NearlySorted"]

Item = TypeVar("Item", bound=tuple[Any, ...])


class NearlySorted(Generic[Item]):
    """Distinct tuples. To take one out costs the same however many there are, if it came after all before it."""

    def __init__(self) -> None:
        self._in_order: OrderedDict[Item, None] = OrderedDict()
        self._others: SortedSet[Item] = SortedSet()

    def __len__(self) -> int:
        return len(self._in_order) + len(self._others)

    def __iter__(self) -> Iterator[Item]:
        return merge(self._in_order, self._others)

    @property
    def first(self) -> Item:
        if not self._others:
            return next(iter(self._in_order))
        if not self._in_order:
            return self._others.first
        return min(next(iter(self._in_order)), self._others.first)

    def add(self, item: Item) -> None:
        """Put in an item that is not there yet."""
        if not self._in_order or item > next(reversed(self._in_order)):
            self._in_order[item] = None
        else:
            self._others.add(item)

    def remove(self, item: Item) -> None:
        """Take out an item that is there."""
        if item in self._in_order:
            del self._in_order[item]
        else:
            self._others.remove(item)
