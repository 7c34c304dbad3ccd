"""The blocks of a host segment that make way for one of another size: those worth most move on."""

import logging
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from tailrace.kvcache.eviction import EvictionConfig
from tailrace.levels.segment import Segment
from tailrace.levels.slots import READY, SlotTable
from tailrace.levels.victims import first_to_go

__all__ = ["move_blocks"]

logger = logging.getLogger(__name__)

_AT_ONCE = 32


def move_blocks(old: Segment, new: Segment, eviction: EvictionConfig, now_s: float) -> None:
    """Move what the policy would keep to `new`, which is empty, as far as there is room.

    Bit by bit the old memory is given back, so that both together take little more than one. Who is killed here leaves
    what has not moved yet.
    """
    with old.changing() as there, new.changing() as table:
        num_blocks = there.num_ready
        dropped = first_to_go(there, num_blocks - table.num_slots, now_s, eviction)
        there.drop(dropped)
        for slot in dropped:
            old.give_back(slot)
        num_moved = _Move(old, there, new, table).all_of(_newest_first(there)[: table.num_slots])
        table.parents()
    new.told = old.told
    if num_moved < num_blocks:
        logger.warning(
            "%s has another size now: %d of its %d KV blocks were dropped", old.path, num_blocks - num_moved, num_blocks
        )


def _newest_first(table: SlotTable) -> list[int]:
    slots = np.flatnonzero(table.state == READY)
    return [int(slot) for slot in slots[np.argsort(-table.last[slots], kind="stable")]]


class _Move(NamedTuple):
    old: Segment
    there: SlotTable
    new: Segment
    table: SlotTable

    def all_of(self, slots: Sequence[int]) -> int:
        """Until there is no memory; how many."""
        num_moved = 0
        while moved := self._some_of(slots[num_moved : num_moved + _AT_ONCE], num_moved):
            num_moved += moved
        return num_moved

    def _some_of(self, slots: Sequence[int], first: int) -> int:
        """Into the new slots from `first` on."""
        targets = list(takewhile(self.new.has_memory, range(first, first + len(slots))))
        if not targets:
            return 0
        moved = list(slots[: len(targets)])
        self.new.slots[targets] = self.old.slots[moved]
        heads = [self.there.head(slot) for slot in moved]
        self.table.publish(targets, heads, [self.there.checksum(slot) for slot in moved], 0.0)
        self.table.last[targets], self.table.previous[targets] = self.there.last[moved], self.there.previous[moved]
        self.there.drop(moved)
        for slot in moved:
            self.old.give_back(slot)
        return len(moved)
