"""Blocks that running sequences will need, most likely: set aside while they are free, so that they lie together.

A reservation costs nobody anything. Only blocks that are free and have memory are reserved, and whoever finds no such
block takes a reserved one, before a chunk gets memory, an idle block is evicted or anybody is preempted.
"""

from tailrace.kvcache.block import Block, BlockTable
from tailrace.kvcache.pool import BlockPool

__all__ = ["Reservations"]


class Reservations:
    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._reserved: dict[BlockTable, list[Block]] = {}  # of each the next one last; who reserved last pays first
        self._num_blocks = 0

    @property
    def num_blocks(self) -> int:
        return self._num_blocks

    def blocks(self) -> list[Block]:
        return [block for reserved in self._reserved.values() for block in reserved]

    def reserve(self, table: BlockTable, num_blocks: int) -> None:
        """Set blocks aside for a sequence that has none aside, as far as some are free and have memory."""
        count = min(num_blocks, self._pool.num_free_with_memory)
        if count > 0:
            self._reserved[table] = self._pool.take_all(count, table.group)[::-1]
            self._num_blocks += count

    def take(self, table: BlockTable) -> Block | None:
        """The next of the sequence's own blocks."""
        return self._remove(table, -1) if table in self._reserved else None

    def take_back(self) -> bool:
        """Make the block free that would be needed last; False when there is none."""
        if not self._reserved:
            return False
        self._pool.put_free(self._remove(next(reversed(self._reserved)), 0))
        return True

    def give_up(self, table: BlockTable) -> None:
        """The sequence needs no more."""
        for block in self._reserved.pop(table, ()):
            self._pool.put_free(block)
            self._num_blocks -= 1

    def _remove(self, table: BlockTable, place: int) -> Block:
        reserved = self._reserved[table]
        block = reserved.pop(place)
        if not reserved:
            del self._reserved[table]
        self._num_blocks -= 1
        return block
