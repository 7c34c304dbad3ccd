"""Room for copies of blocks on their way to the levels below, so that the pool's own rows are held for a copy alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.kvcache.transfer import BlockHead, Save
from tailrace.types import Level

__all__ = ["StagedBlock", "Staging"]


@dataclass(eq=False, slots=True)
class StagedBlock:
    """A copy of a block that `num_holders` levels have still to write.

    `versions` are those of the forgets of each level that the engine knew of when it saved the block.
    """

    head: BlockHead
    slot: int
    versions: Mapping[Level, int]
    num_holders: int = 0
    is_dropped: bool = False  # forgotten since
    skipped: frozenset[Level] = frozenset()  # levels that are not to have it


class Staging:
    """Slots for blocks. Not safe for threads: the store's lock guards who holds which slot, not the bytes in it."""

    def __init__(self, num_slots: int, block_bytes: int) -> None:
        self.num_slots = num_slots
        self._rows = np.empty((num_slots, block_bytes), np.uint8)  # memory once it is used
        self._free = list(reversed(range(num_slots)))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, save: Save, versions: Mapping[Level, int]) -> StagedBlock:
        return StagedBlock(save.head, self._free.pop(), versions, skipped=save.skipped)

    def give_back(self, block: StagedBlock) -> None:
        self._free.append(block.slot)

    def fill(self, block: StagedBlock, row: NDArray[np.uint8]) -> None:
        """Copy a row of the pool, without holding the interpreter's lock."""
        np.copyto(self._rows[block.slot], row)

    def data(self, block: StagedBlock) -> memoryview:
        return memoryview(self._rows[block.slot])
