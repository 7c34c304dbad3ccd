"""The disk level: blocks in the slots of a file, for one server and for the one that is started after it.

Slots of one size instead of a log: the block that the policy names goes, and no other, nothing is ever copied to make
room, and the bound holds to the byte. The index is in memory, built at the start from records that lie side by side.
Once forgotten a block is found no more; its bytes stay until the slot is used again.
"""

import errno
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from xxhash import xxh3_64_intdigest

from tailrace.kvcache.eviction import EvictionConfig
from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import LevelFailure, LevelStats, StoredBlock
from tailrace.levels.damage import Damage
from tailrace.levels.disk_files import DiskFiles, failing_as_level
from tailrace.levels.parts import put_in_parts
from tailrace.levels.slots import FREE
from tailrace.levels.victims import Victims
from tailrace.types import Level

__all__ = ["DiskLevel"]

logger = logging.getLogger(__name__)

_LONGEST_BATCH = 16


class DiskLevel:
    """Raises LevelFailure when the directory cannot be used or is in use."""

    def __init__(
        self,
        directory: Path,
        block_bytes: int,
        max_bytes: int,
        eviction: EvictionConfig | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._victims = Victims(eviction or EvictionConfig())
        self._files = DiskFiles(directory, block_bytes, max_bytes)
        self._table = self._files.load(clock())
        self._unnoted: set[int] = set()  # forgotten, and not yet on disk
        self._damage = Damage(str(directory))
        self._num_evicted = 0
        self._is_removal_told = False

    @property
    def level(self) -> Level:
        return Level.DISK

    @property
    def log(self) -> None:
        return None

    @property
    def told(self) -> int:
        return self._files.told

    @told.setter
    def told(self, version: int) -> None:
        with failing_as_level(self._files.directory):
            self._files.told = version

    def contain(self, names: Sequence[bytes]) -> int:
        return len(self._table.ready_run(names))

    def elsewhere(self, content: bytes) -> BlockHead | None:
        return self._table.with_content(content)

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        arrived: list[int] = []
        with failing_as_level(self._files.directory):
            for slot, buffer in zip(self._table.ready_run(names), into, strict=False):
                if not self._read(slot, buffer):
                    break
                arrived.append(slot)
            self._use(arrived)
        return len(arrived)

    def _read(self, slot: int, buffer: memoryview) -> bool:
        """Whether the block is whole. One that is not, or cannot be read, is dropped."""
        is_whole = False
        try:
            is_read = self._files.read(slot, buffer)
            is_whole = is_read and xxh3_64_intdigest(buffer) == self._table.checksum(slot)
        finally:
            if not is_whole:
                self._damage.found()
                self._table.drop([slot])
                self._files.note(self._table, [slot])
        return is_whole

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        if self._files.is_removed:
            raise LevelFailure(self._removal)
        with failing_as_level(self._files.directory):
            return put_in_parts(blocks, _LONGEST_BATCH, self._put)

    def _put(self, blocks: Sequence[StoredBlock]) -> set[bytes]:
        """The names of those for which there was no room."""
        table = self._table
        found = table.find([block.head.name for block in blocks])
        self._use([slot for slot in found if slot is not None])
        new = [block for block, slot in zip(blocks, found, strict=True) if slot is None]
        slots = self._write(new, table.needed_for([block.head for block in blocks]))
        written = new[: len(slots)]
        checksums = [xxh3_64_intdigest(block.data) for block in written]
        table.publish(slots, [block.head for block in written], checksums, self._clock())
        self._files.note(table, slots)
        return {block.head.name for block in new[len(slots) :]}

    def _use(self, slots: list[int]) -> None:
        self._table.use(slots, self._clock())
        self._files.note(self._table, slots)

    def _write(self, blocks: Sequence[StoredBlock], kept: set[int]) -> list[int]:
        """In which slots the first of them lie now. A disk that is full has still those of others."""
        free = np.flatnonzero(self._table.state == FREE)[: len(blocks)].tolist()
        slots, full = self._write_in(free, blocks)
        evicted = self._victims.evict(self._table, len(blocks) - len(slots), kept, self._clock())
        self._files.note(self._table, evicted)  # before their data is overwritten
        self._num_evicted += len(evicted)
        more, still_full = self._write_in(evicted, blocks[len(slots) :])
        problem = full or still_full
        if problem and not slots + more:
            raise problem
        return slots + more

    def _write_in(self, slots: Sequence[int], blocks: Sequence[StoredBlock]) -> tuple[list[int], OSError | None]:
        """As far as there is room on the disk; else why there is none."""
        for index, (slot, block) in enumerate(zip(slots, blocks, strict=False)):
            try:
                self._files.write(slot, block.data)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return list(slots[:index]), error
        return list(slots[: len(blocks)]), None

    def forget(self, forgets: Sequence[Forget]) -> int:
        before, generations = self._table.num_ready, self._table.generation.copy()
        self._table.forget(forgets)
        self._unnoted.update(np.flatnonzero(self._table.generation != generations).tolist())
        with failing_as_level(self._files.directory):
            self._files.note(self._table, list(self._unnoted))
            self._files.sync_index()
        self._unnoted.clear()
        return before - self._table.num_ready

    @property
    def _removal(self) -> str:
        return f"what lay in {self._files.directory} was removed: start the server again to keep KV blocks there"

    def stats(self) -> LevelStats:
        if self._files.is_removed and not self._is_removal_told:
            self._is_removal_told = True
            logger.warning("%s", self._removal)
        num_blocks = self._table.num_ready
        num_bytes = num_blocks * self._files.slot_bytes
        return LevelStats(num_blocks, num_bytes, self._max_bytes, self._num_evicted, self._damage.num_blocks)

    def close(self) -> None:
        self._files.close()
