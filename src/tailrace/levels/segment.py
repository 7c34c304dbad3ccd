"""The host level's file in shared memory, as one of its users sees it, and what a dead user leaves behind."""

import mmap
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.levels.forget_ring import ForgetRing
from tailrace.levels.layout import (
    HEAD_BYTES,
    LOG_RECORD_WORDS,
    LOG_RECORDS,
    TABLE_LOCK,
    USER_LOCKS,
    Head,
    Layout,
)
from tailrace.levels.lock import FileLocks
from tailrace.levels.slots import FREE, READY, WRITING, SlotTable, table_bytes

__all__ = ["Segment", "host_path"]


def host_path(block_bytes: int | Literal["*"], directory: Path) -> Path:
    """Where the blocks of this size lie: a server that is started again finds them, whatever else it is told."""
    return directory / f"tailrace-{os.geteuid()}-{block_bytes}.kv"


class Segment:
    """A mapped file, as one of its users sees it. `slots` is [num_slots, slot_bytes] of uint8."""

    def __init__(self, fd: int, path: Path, layout: Layout, locks: FileLocks, user: int) -> None:
        self.path = path
        self.layout = layout
        self.user = user
        self._fd = fd
        self._locks = locks
        # Never unmapped by hand: it goes with the last array over it, which may be a reader's of the log.
        self._map = mmap.mmap(fd, layout.file_bytes)
        buffer = memoryview(self._map)
        self._head = Head(buffer)
        records = np.frombuffer(buffer, np.uint64, LOG_RECORDS * LOG_RECORD_WORDS, HEAD_BYTES)
        self.log = ForgetRing(self._head, records.reshape(LOG_RECORDS, LOG_RECORD_WORDS), secrets.randbits(64))
        end = layout.table_at + table_bytes(layout.num_slots)
        self._table = SlotTable(buffer[layout.table_at : end], layout.num_slots)
        data = np.frombuffer(buffer, np.uint8, layout.num_slots * layout.slot_bytes, layout.slots_at)
        self.slots: NDArray[np.uint8] = data.reshape(layout.num_slots, layout.slot_bytes)
        self._has_memory = np.zeros(layout.num_slots, np.bool_)
        self._take_over()

    def _take_over(self) -> None:
        """Of whoever was this user before, and died: nobody writes in its slots any more."""
        with self._locks.held(TABLE_LOCK):
            table = self._table
            table.state[(table.state == WRITING) & (table.owner == self.user)] = FREE
            self._repair()
            self._head.last_used_s = time.monotonic()

    @contextmanager
    def changing(self) -> Iterator[SlotTable]:
        """The table, for this user alone, and whole: what one who died, or failed, left half done is repaired first."""
        with self._locks.held(TABLE_LOCK):
            if self._head.is_changing:
                self._repair()
            self._head.is_changing = True
            self._head.last_used_s = time.monotonic()
            yield self._table
            self._head.is_changing = False

    def _repair(self) -> None:
        self._head.is_changing = True
        self._table.rebuild()
        self.reclaim()
        self.carry_out()
        self._head.is_changing = False

    def carry_out(self) -> int:
        """Drop what the log says and is still there; how many blocks went."""
        forgets = self.log.unapplied()
        before = self._table.num_ready
        if forgets is None:
            self._table.drop(np.flatnonzero(self._table.state >= READY))
        self._table.forget(forgets or ())
        self.log.applied()
        return before - self._table.num_ready

    def reclaim(self) -> None:
        """Free the slots in which others wrote when they died."""
        table = self._table
        is_written = table.state == WRITING
        for owner in np.unique(table.owner[is_written]).tolist():
            if owner != self.user and not self._lives(owner):
                table.drop(np.flatnonzero(is_written & (table.owner == owner)))

    def _lives(self, user: int) -> bool:
        return user < len(USER_LOCKS) and self._locks.is_held_elsewhere(USER_LOCKS[user])

    @property
    def told(self) -> int:
        return self._head.told

    @told.setter
    def told(self, version: int) -> None:
        with self._locks.held(TABLE_LOCK):  # several engines of this host may pass on the same
            self._head.told = max(self._head.told, version)

    def generation(self, slot: int) -> int:
        """Needs no lock."""
        return int(self._table.generation[slot])

    def has_memory(self, slot: int) -> bool:
        """Whether the slot may be written. To touch a page that a full /dev/shm has no room for would be SIGBUS."""
        if not self._has_memory[slot]:
            try:
                os.posix_fallocate(self._fd, self.layout.slot_at(slot), self.layout.slot_bytes)
            except OSError:
                return False
            self._has_memory[slot] = True
        return True

    def give_back(self, slot: int) -> None:
        """The memory of a free slot, as far as its pages are all its own; where the file system can do that."""
        start, end = self.layout.slot_at(slot), self.layout.slot_at(slot + 1)
        start, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        self._has_memory[slot] = False
        if end > start:
            with suppress(OSError):
                self._map.madvise(mmap.MADV_REMOVE, start, end - start)

    def close(self) -> None:
        self._locks.unlock(USER_LOCKS[self.user])  # the mapping has a duplicate of the descriptor, and with it the lock
        os.close(self._fd)
