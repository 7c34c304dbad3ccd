"""Who goes first when a level is full: LRU-K with K = 2, joined with a time to live. The one policy of all levels.

    1 expired       not used for longer than the time to live
    2 seen once     and idle for five minutes
    3 lapsed        seen twice or more, but the last two uses lay over 30 s apart
    4 seen once     and not idle for long, the longest idle first
    5 the rest      the one whose last use but one is the longest ago (LRU-2)

Within 1 to 3 the longest idle goes first. Time is an argument.
"""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

__all__ = ["EvictionConfig", "EvictionQueue", "Standing", "Uses"]

_MIN_STALE = 64  # entries that may lie about before a heap is cleared of them

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class EvictionConfig:
    ttl_s: float = 3600.0  # since the last use
    once_idle_s: float = 300.0
    lapse_s: float = 30.0


class Standing(IntEnum):
    """The lower, the sooner evicted."""

    EXPIRED = 1
    ONCE_IDLE = 2
    LAPSED = 3
    ONCE = 4
    REGULAR = 5


@dataclass(frozen=True, slots=True)
class Uses:
    """The last two uses of an entry; `previous_s` is minus infinity for one that was seen once."""

    last_s: float
    previous_s: float = -math.inf

    def again(self, now_s: float) -> "Uses":
        return Uses(now_s, self.last_s)

    def until(self, now_s: float) -> "Uses":
        """The last use went on until now; the gap before it is as long as it was."""
        return Uses(now_s, self.previous_s + (now_s - self.last_s))

    def standing(self, now_s: float, config: EvictionConfig) -> tuple[Standing, float]:
        """What `victim` orders by: the standing, and a time within it; the smallest goes first."""
        idle_s = now_s - self.last_s
        if idle_s > config.ttl_s:
            return Standing.EXPIRED, self.last_s
        if self.previous_s == -math.inf:
            return (Standing.ONCE_IDLE if idle_s >= config.once_idle_s else Standing.ONCE), self.last_s
        if self.last_s - self.previous_s > config.lapse_s:
            return Standing.LAPSED, self.last_s
        return Standing.REGULAR, self.previous_s


class EvictionQueue(Generic[Key]):
    """Entries that may be evicted, in the order of the policy; every call costs O(log n), amortised.

    Each entry lies in one heap by what cannot change while it lies there (seen once, lapsed, regular) and, for its time
    to live, in one by its last use. Who uses or removes it leaves its old places behind; they are dropped when they
    come up, or all together once they are the most.
    """

    def __init__(self, config: EvictionConfig) -> None:
        self.config = config
        self._uses: dict[Key, Uses] = {}
        self._stamps: dict[Key, int] = {}
        self._by_last: list[tuple[float, int, Key]] = []
        self._once: list[tuple[float, int, Key]] = []
        self._lapsed: list[tuple[float, int, Key]] = []
        self._regular: list[tuple[float, int, Key]] = []
        self._num_stamped = 0

    def __len__(self) -> int:
        return len(self._uses)

    def __contains__(self, key: object) -> bool:
        return key in self._uses

    def __iter__(self) -> Iterator[Key]:
        """In no order."""
        return iter(self._uses)

    def add(self, key: Key, uses: Uses) -> None:
        """Let `key` be evicted. One that is there already gets new uses."""
        self._num_stamped += 1
        stamp = self._num_stamped
        self._uses[key], self._stamps[key] = uses, stamp
        heappush(self._by_last, (uses.last_s, stamp, key))
        if uses.previous_s == -math.inf:
            heappush(self._once, (uses.last_s, stamp, key))
        elif uses.last_s - uses.previous_s > self.config.lapse_s:
            heappush(self._lapsed, (uses.last_s, stamp, key))
        else:
            heappush(self._regular, (uses.previous_s, stamp, key))
        self._clear_stale()

    def remove(self, key: Key) -> Uses:
        """Take `key` out. Raises KeyError when it is not there."""
        del self._stamps[key]
        return self._uses.pop(key)

    def victim(self, now_s: float) -> tuple[Key, Standing] | None:
        """Who would be evicted now, and why; it stays in. None when nothing may be."""
        oldest = self._top(self._by_last)
        if oldest is None:
            return None
        if now_s - self._uses[oldest].last_s > self.config.ttl_s:
            return oldest, Standing.EXPIRED
        once = self._top(self._once)
        if once is not None and now_s - self._uses[once].last_s >= self.config.once_idle_s:
            return once, Standing.ONCE_IDLE
        lapsed = self._top(self._lapsed)
        if lapsed is not None:
            return lapsed, Standing.LAPSED
        if once is not None:
            return once, Standing.ONCE
        regular = self._top(self._regular)
        assert regular is not None, "an entry lies in no heap"
        return regular, Standing.REGULAR

    def oldest(self) -> Key | None:
        """Who was not used for longest, whatever its standing; None when nobody is in."""
        return self._top(self._by_last)

    def _top(self, heap: list[tuple[float, int, Key]]) -> Key | None:
        while heap and self._stamps.get(heap[0][2]) != heap[0][1]:
            heappop(heap)
        return heap[0][2] if heap else None

    def _clear_stale(self) -> None:
        for heap in (self._by_last, self._once, self._lapsed, self._regular):
            if len(heap) > 2 * len(self._uses) + _MIN_STALE:
                heap[:] = [entry for entry in heap if self._stamps.get(entry[2]) == entry[1]]
                heapify(heap)
