"""Orders in which a full cache lets blocks go, for comparing: LRU, LFU, the engine's own policy, Belady's optimum.

An order ranks; which blocks may go at all (those that nothing cached continues) is the business of the cache.
"""

import math
from collections import Counter
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from tailrace.kvcache.eviction import EvictionConfig, EvictionQueue, Uses
from tailrace.measure.trace import PromptTrace

__all__ = ["Belady", "EvictionOrder", "Lfu", "Lru", "LruKTtl", "Turn"]

Rank = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """When a prompt comes: its place in the trace and its time."""

    index: int
    at_s: float


class EvictionOrder(Protocol):
    """`use` each block of a prompt, then `offer` those that may go; `withdraw` before any other use."""

    @property
    def may_decline(self) -> bool:
        """Whether blocks of the newest prompt may be the first to go."""
        ...

    def use(self, block: int, depth: int, turn: Turn) -> None: ...

    def offer(self, block: int) -> None: ...

    def withdraw(self, block: int) -> None: ...

    def victim(self, turn: Turn) -> int | None:
        """Who goes first of those offered; None when there is nobody."""
        ...

    def drop(self, block: int) -> None:
        """The block is gone, and what is known of its uses with it."""
        ...


class _Offers:
    """Offered blocks by rank, the lowest first. Entries of blocks that were withdrawn lie about until they come up."""

    def __init__(self) -> None:
        self._ranks: dict[int, Rank] = {}
        self._heap: list[tuple[Rank, int]] = []

    def add(self, block: int, rank: Rank) -> None:
        self._ranks[block] = rank
        heappush(self._heap, (rank, block))

    def remove(self, block: int) -> None:
        del self._ranks[block]

    def first(self) -> int | None:
        while self._heap and self._ranks.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][1] if self._heap else None


class _Ranked:
    """An order by a rank that a use settles. Deeper blocks of one prompt rank lower, so a chain goes from its end."""

    may_decline = False

    def __init__(self) -> None:
        self._ranks: dict[int, Rank] = {}
        self._offers = _Offers()

    def offer(self, block: int) -> None:
        self._offers.add(block, self._ranks[block])

    def withdraw(self, block: int) -> None:
        self._offers.remove(block)

    def victim(self, turn: Turn) -> int | None:
        return self._offers.first()

    def drop(self, block: int) -> None:
        del self._ranks[block]


class Lru(_Ranked):
    """The longest unused goes first."""

    def use(self, block: int, depth: int, turn: Turn) -> None:
        self._ranks[block] = (turn.index, -depth)


class Lfu(_Ranked):
    """The least used since it came goes first; of equals, the longest unused."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[int] = Counter()

    def use(self, block: int, depth: int, turn: Turn) -> None:
        self._counts[block] += 1
        self._ranks[block] = (self._counts[block], turn.index, -depth)

    def drop(self, block: int) -> None:
        super().drop(block)
        del self._counts[block]


class Belady(_Ranked):
    """Knows the trace: who is used again the latest goes first, be it the newest. No order finds more blocks."""

    may_decline = True

    def __init__(self, trace: PromptTrace) -> None:
        super().__init__()
        self._uses: dict[int, list[int]] = {}  # of each block, the places of its prompts to come, last to first
        for index in reversed(range(len(trace.prompts))):
            for block in trace.prompts[index].block_ids:
                self._uses.setdefault(block, []).append(index)

    def use(self, block: int, depth: int, turn: Turn) -> None:
        uses = self._uses[block]
        while uses and uses[-1] <= turn.index:
            uses.pop()
        self._ranks[block] = (-uses[-1] if uses else -math.inf, -depth)


class LruKTtl:
    """The policy of the engine and all levels, as they run it."""

    may_decline = False

    def __init__(self, config: EvictionConfig) -> None:
        self._queue: EvictionQueue[int] = EvictionQueue(config)
        self._uses: dict[int, Uses] = {}

    def use(self, block: int, depth: int, turn: Turn) -> None:
        known = self._uses.get(block)
        self._uses[block] = Uses(turn.at_s) if known is None else known.again(turn.at_s)

    def offer(self, block: int) -> None:
        self._queue.add(block, self._uses[block])

    def withdraw(self, block: int) -> None:
        self._queue.remove(block)

    def victim(self, turn: Turn) -> int | None:
        found = self._queue.victim(turn.at_s)
        return None if found is None else found[0]

    def drop(self, block: int) -> None:
        del self._uses[block]
