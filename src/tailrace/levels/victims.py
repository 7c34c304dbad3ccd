"""The policy of kvcache/eviction.py over the columns of a table: who goes first, and leaves before their parents."""

from collections import Counter, deque
from collections.abc import Set
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.kvcache.eviction import EvictionConfig, Standing
from tailrace.levels.slots import READY, SlotTable

__all__ = ["Victims", "first_to_go", "sane_uses", "standings"]

_ROUND = 128  # of so many blocks one is chosen in advance


def standings(
    last: NDArray[np.float64], previous: NDArray[np.float64], now_s: float, config: EvictionConfig
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """What `Uses.standing` says of each pair of uses."""
    idle = now_s - last
    once = previous == -np.inf
    lapsed = ~once & (last - previous > config.lapse_s)
    regular = ~once & ~lapsed & (idle <= config.ttl_s)
    standing = np.full(last.shape, Standing.REGULAR, np.uint8)
    standing[once] = Standing.ONCE
    standing[once & (idle >= config.once_idle_s)] = Standing.ONCE_IDLE
    standing[lapsed] = Standing.LAPSED
    standing[idle > config.ttl_s] = Standing.EXPIRED
    return standing, np.where(regular, previous, last)


def sane_uses(
    last: NDArray[np.float64], previous: NDArray[np.float64], now_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bits may have changed where they lay: a use that lies ahead, or is no number, counts as none."""
    with np.errstate(invalid="ignore"):
        last = np.where((last >= 0) & (last <= now_s), last, 0.0)
        return last, np.where((previous >= 0) & (previous <= last), previous, -np.inf)


def first_to_go(table: SlotTable, count: int, now_s: float, config: EvictionConfig) -> list[int]:
    """At most `count` slots, exactly as the policy orders them, at the price of looking at all."""
    slots = np.flatnonzero(table.state == READY)
    standing, time_s = standings(*sane_uses(table.last[slots], table.previous[slots], now_s), now_s, config)
    ranks = np.zeros(table.num_slots + 1, np.intp)
    ranks[slots[np.lexsort((time_s, standing))]] = np.arange(len(slots))
    parents = table.parents()
    children = np.append(table.children, 0).astype(np.intp)
    leaves = [(int(ranks[slot]), int(slot)) for slot in slots[children[slots] == 0]]
    heapify(leaves)
    gone: list[int] = []
    while leaves and len(gone) < count:
        slot = heappop(leaves)[1]
        gone.append(slot)
        parent = int(parents[slot])
        children[parent] -= 1
        if children[parent] == 0 and parent < table.num_slots:
            heappush(leaves, (int(ranks[parent]), parent))
    return gone


class _Victim(NamedTuple):
    slot: int
    generation: int
    last_use: bytes  # in bits: a number that was damaged may equal nothing
    parent: int

    @classmethod
    def of(cls, table: SlotTable, slot: int, parent: int) -> "_Victim":
        return cls(slot, int(table.generation[slot]), table.last[slot].tobytes(), parent)

    def is_as_chosen(self, table: SlotTable) -> bool:
        return bool(table.state[self.slot] == READY and self == _Victim.of(table, self.slot, self.parent))


class Victims:
    """Chooses blocks to evict. A look at all of them is dear, so one in a hundred is chosen in advance.

    Who was used, replaced or continued since then is passed over. A table of few slots is looked at each time, and then
    the order is exactly that of the policy.
    """

    def __init__(self, config: EvictionConfig) -> None:
        self._config = config
        self._chosen: deque[_Victim] = deque()

    def evict(self, table: SlotTable, count: int, kept: Set[int], now_s: float) -> list[int]:
        """Free at most `count` slots, none of `kept`; which."""
        evicted = self._evict_chosen(table, count, kept)
        if len(evicted) < count:
            self._choose(table, max(count - len(evicted), table.num_slots // _ROUND), kept, now_s)
            evicted += self._evict_chosen(table, count - len(evicted), kept)
        return evicted

    def _evict_chosen(self, table: SlotTable, count: int, kept: Set[int]) -> list[int]:
        evicted: list[int] = []
        gone = Counter[int]()  # children of each
        while self._chosen and len(evicted) < count:
            victim = self._chosen.popleft()
            is_leaf = table.children[victim.slot] == gone[victim.slot]
            if is_leaf and victim.slot not in kept and victim.is_as_chosen(table):
                evicted.append(victim.slot)
                gone[victim.parent] += 1
        table.drop(evicted)
        return evicted

    def _choose(self, table: SlotTable, count: int, kept: Set[int], now_s: float) -> None:
        """In rounds: once all blocks behind one are chosen, it is a leaf itself."""
        parents = table.parents()
        children = np.append(table.children, 0).astype(np.intp)
        may_go = table.state == READY
        may_go[list(kept)] = False
        while len(self._chosen) < count:
            leaves = np.flatnonzero(may_go & (children[:-1] == 0))
            if not leaves.size:
                return
            best = self._best(table, leaves, count - len(self._chosen), now_s)
            may_go[best] = False
            np.subtract.at(children, parents[best], 1)
            self._chosen.extend(_Victim.of(table, slot, int(parents[slot])) for slot in best)

    def _best(self, table: SlotTable, slots: NDArray[np.intp], count: int, now_s: float) -> list[int]:
        standing, time_s = standings(*sane_uses(table.last[slots], table.previous[slots], now_s), now_s, self._config)
        best: list[int] = []
        for rank in Standing:
            of_rank = np.flatnonzero(standing == rank)
            order = np.argsort(time_s[of_rank], kind="stable")[: count - len(best)]
            best += slots[of_rank[order]].tolist()
        return best
