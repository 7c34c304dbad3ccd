"""The host level: blocks in shared memory, for all engines of a host, and for those that are started later.

    put   reserve slots (locked) -> copy (not locked) -> publish (locked)
    get   look up (locked) -> copy (not locked) -> is it still that generation, and does the checksum fit?

So the lock is held for as long as bookkeeping takes, never for a copy. A block is found only once it is published, and
a writer that dies before leaves a slot that the next user frees.
"""

import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from tailrace.kvcache.eviction import EvictionConfig
from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import LevelFailure, LevelStats, Outdated, StoredBlock
from tailrace.levels.config import HOST_DIRECTORY
from tailrace.levels.damage import Damage
from tailrace.levels.forget_ring import ForgetRing
from tailrace.levels.layout import LOG_RECORDS
from tailrace.levels.moving import move_blocks
from tailrace.levels.parts import put_in_parts
from tailrace.levels.segment import Segment, host_path
from tailrace.levels.segment_opening import open_segment
from tailrace.levels.segments import remove_stale
from tailrace.levels.slots import FREE, SlotTable
from tailrace.levels.victims import Victims
from tailrace.types import Level

__all__ = ["HostLevel"]

_LONGEST_BATCH = 16  # blocks a put holds slots for at once


class _Place(NamedTuple):
    slot: int
    generation: int
    checksum: int


class HostLevel:
    """Raises LevelFailure when there is no shared memory, no room in it, or someone uses it with other settings."""

    def __init__(
        self,
        block_bytes: int,
        max_bytes: int,
        eviction: EvictionConfig | None = None,
        *,
        directory: Path = HOST_DIRECTORY,
        clock: Callable[[], float] = time.monotonic,
        lock_timeout_s: float = 1.0,
    ) -> None:
        eviction = eviction or EvictionConfig()
        path = host_path(block_bytes, directory)
        remove_stale(directory, eviction.ttl_s, path)

        def move(old: Segment, new: Segment) -> None:
            move_blocks(old, new, eviction, clock())

        self._segment = open_segment(path, block_bytes, max_bytes, lock_timeout_s, move)
        self._victims = Victims(eviction)
        self._clock = clock
        self._block_bytes = block_bytes
        self._damage = Damage(str(self._segment.path))
        self._num_evicted = 0

    @property
    def level(self) -> Level:
        return Level.HOST

    @property
    def log(self) -> ForgetRing:
        return self._segment.log

    @property
    def told(self) -> int:
        return self._segment.told

    @told.setter
    def told(self, version: int) -> None:
        self._segment.told = version

    def contain(self, names: Sequence[bytes]) -> int:
        with self._segment.changing() as table:
            return len(table.ready_run(names))

    def elsewhere(self, content: bytes) -> BlockHead | None:
        with self._segment.changing() as table:
            return table.with_content(content)

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        places = self._look_up(names)
        for index, (place, buffer) in enumerate(zip(places, into, strict=False)):
            if not self._copy(place, buffer):
                return index
        return len(places)

    def _look_up(self, names: Sequence[bytes]) -> list[_Place]:
        with self._segment.changing() as table:
            places = []
            for slot in table.ready_run(names):
                if not table.is_sealed(slot):
                    self._damage.found()
                    table.rebuild()
                    break
                places.append(_Place(slot, int(table.generation[slot]), table.checksum(slot)))
            table.use([place.slot for place in places], self._clock())
            return places

    def _copy(self, place: _Place, buffer: memoryview) -> bool:
        np.copyto(np.frombuffer(buffer, np.uint8), self._segment.slots[place.slot, : self._block_bytes])
        is_whole = xxh3_64_intdigest(buffer) == place.checksum
        if self._segment.generation(place.slot) != place.generation:
            return False
        if not is_whole:
            self._drop_corrupt(place)
        return is_whole

    def _drop_corrupt(self, place: _Place) -> None:
        with self._segment.changing() as table:
            if table.generation[place.slot] == place.generation:
                table.drop([place.slot])
                self._damage.found()

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        at_once = max(1, min(_LONGEST_BATCH, self._segment.layout.num_slots // 2))
        return put_in_parts(blocks, at_once, lambda part: self._put(part, version))

    def _put(self, blocks: Sequence[StoredBlock], version: int) -> set[bytes]:
        """The names of those for which there was no room."""
        new, slots = self._reserve(blocks, version)
        if slots:
            checksums = [self._write(slot, block.data) for slot, block in zip(slots, new, strict=False)]
            self._publish(new, slots, checksums, version)
        return {block.head.name for block in new[len(slots) :]}

    def _reserve(self, blocks: Sequence[StoredBlock], version: int) -> tuple[list[StoredBlock], list[int]]:
        """The blocks that are not there, and slots for the first of them."""
        with self._segment.changing() as table:
            is_outdated = self.log.version() > version
            found = table.find([block.head.name for block in blocks])
            there = [slot for slot in found if slot is not None]
            new = [block for block, slot in zip(blocks, found, strict=True) if slot is None]
            slots: list[int] = []
            if not is_outdated:
                table.use(there, self._clock())
                slots = self._free_slots(table, len(new), table.needed_for([block.head for block in blocks]))
            table.reserve(slots, self._segment.user)
        if is_outdated:
            raise Outdated
        return new, slots

    def _free_slots(self, table: SlotTable, count: int, kept: set[int]) -> list[int]:
        self._segment.reclaim()
        free = np.flatnonzero(table.state == FREE)[:count].tolist()
        slots = list(takewhile(self._segment.has_memory, free))
        evicted = self._victims.evict(table, count - len(slots), kept, self._clock())
        self._num_evicted += len(evicted)
        if free and not slots and not evicted:
            raise LevelFailure(f"{self._segment.path.parent} is full, and nothing is here that could go")
        return slots + evicted

    def _write(self, slot: int, data: memoryview) -> int:
        np.copyto(self._segment.slots[slot, : self._block_bytes], np.frombuffer(data, np.uint8))
        return xxh3_64_intdigest(data)

    def _publish(
        self, blocks: Sequence[StoredBlock], slots: Sequence[int], checksums: Sequence[int], version: int
    ) -> None:
        with self._segment.changing() as table:
            is_outdated = self.log.version() > version
            written = dict(zip((block.head for block in blocks), zip(slots, checksums, strict=True), strict=False))
            found = table.find([head.name for head in written])
            heads = [] if is_outdated else [head for head, slot in zip(written, found, strict=True) if slot is None]
            ready = [written[head] for head in heads]
            table.drop([slot for slot in slots if slot not in {slot for slot, _ in ready}])
            table.publish([slot for slot, _ in ready], heads, [checksum for _, checksum in ready], self._clock())
        if is_outdated:
            raise Outdated

    def forget(self, forgets: Sequence[Forget]) -> int:
        num_dropped = 0
        for start in range(0, len(forgets), LOG_RECORDS // 2):  # who repairs must find all that is not carried out
            with self._segment.changing():
                self.log.append(forgets[start : start + LOG_RECORDS // 2])
                num_dropped += self._segment.carry_out()
        return num_dropped

    def stats(self) -> LevelStats:
        with self._segment.changing() as table:
            num_blocks = table.num_ready
        layout = self._segment.layout
        return LevelStats(
            num_blocks, num_blocks * layout.slot_bytes, layout.file_bytes, self._num_evicted, self._damage.num_blocks
        )

    def close(self) -> None:
        self._segment.close()
