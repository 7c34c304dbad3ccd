"""The disk level's files: an index of fixed records and a file of slots. Knows where bytes lie, not which to keep.

    tailrace.lock             held by the process that has the directory open; its process id, for whoever else comes
    tailrace-SIZE.index       head of 4096 bytes, then a record of 128 for each slot
        head                  magic | layout version | block_bytes | seal; at 512: told (see levels/api.py) | seal
        record                12 words of slots.py, sealed | last use | use before | 0 0
    tailrace-SIZE.blocks      slot 0 | slot 1 | ...   each a block, begun on a page

A record never crosses a sector, and vouches by its checksum for the data, by its seal for itself: whichever of the two
files a power loss leaves older, what does not fit together is not a block. So nothing is synced when a block is
written, and the system writes when it likes. What is forgotten is synced: it must not come back.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from xxhash import xxh3_64_intdigest

from tailrace.levels.api import LevelFailure, TooSmall
from tailrace.levels.lock import FileLocks
from tailrace.levels.slots import FREE, READY, RECORD_WORDS, SlotTable, table_bytes
from tailrace.levels.victims import sane_uses

__all__ = ["DiskFiles", "failing_as_level"]

logger = logging.getLogger(__name__)

LAYOUT_VERSION = 1
_MAGIC = b"TAILDISK"
_HEAD_BYTES = 4096
_TOLD_AT = 512  # a sector of its own
_ENTRY_WORDS = 16
_ENTRY_BYTES = 8 * _ENTRY_WORDS
_PAGE = 4096
_LOCK_BYTES = 4096  # what a file of a few digits takes
_LOCK = "tailrace.lock"


@contextmanager
def failing_as_level(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LevelFailure(f"{path}: {error.strerror or error}") from error


class DiskFiles:
    """Raises LevelFailure when another process has the directory, or one block does not fit."""

    def __init__(self, directory: Path, block_bytes: int, max_bytes: int) -> None:
        self.directory = directory
        self.block_bytes = block_bytes
        self.slot_bytes = _slot_bytes(block_bytes)
        self.num_slots = (max_bytes - _HEAD_BYTES - _LOCK_BYTES) // (self.slot_bytes + _ENTRY_BYTES)
        if self.num_slots < 1:
            least = self.bytes_for(block_bytes, 1)
            raise TooSmall(f"{max_bytes} bytes are too few for one block: the disk level needs at least {least}")
        self._fds: list[int] = []
        try:
            with failing_as_level(directory):
                self._open()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def bytes_for(block_bytes: int, num_blocks: int) -> int:
        """The least bound that has room for so many."""
        return _HEAD_BYTES + _LOCK_BYTES + num_blocks * (_slot_bytes(block_bytes) + _ENTRY_BYTES)

    def _open(self) -> None:
        if self.directory.exists() and not self.directory.is_dir():
            raise LevelFailure(f"{self.directory} is not a directory")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock()
        stem = f"tailrace-{self.block_bytes}"
        self._remove_others(stem)
        self._index = self._opened(f"{stem}.index")
        self._blocks = self._opened(f"{stem}.blocks")
        if os.pread(self._index, _HEAD_BYTES, 0)[: len(self._head())] != self._head():
            os.ftruncate(self._index, 0)
            os.pwrite(self._index, self._head(), 0)
        os.ftruncate(self._index, _HEAD_BYTES + self.num_slots * _ENTRY_BYTES)
        if os.fstat(self._blocks).st_size > self.num_slots * self.slot_bytes:
            os.ftruncate(self._blocks, self.num_slots * self.slot_bytes)

    def _remove_others(self, stem: str) -> None:
        """Files of blocks of another size: the bound is for all that lies here."""
        for path in self.directory.glob("tailrace-*.*"):
            if path.stem != stem and path.suffix in (".index", ".blocks"):
                num_bytes = path.stat().st_size
                path.unlink()
                if path.suffix == ".blocks" and num_bytes:
                    logger.warning(
                        "%s: %s bytes of KV blocks of another size were removed; give each model and --block-tokens a"
                        " directory of its own to keep them",
                        self.directory,
                        f"{num_bytes:,}",
                    )

    def _opened(self, name: str) -> int:
        fd = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._fds.append(fd)
        return fd

    def _lock(self) -> None:
        fd = self._opened(_LOCK)
        if not FileLocks(fd, _LOCK, timeout_s=0.0).try_lock(0):
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
            raise LevelFailure(f"{self.directory} is in use by process {owner}: give each server one of its own")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def _head(self) -> bytes:
        head = _MAGIC + LAYOUT_VERSION.to_bytes(8, "little") + self.block_bytes.to_bytes(8, "little")
        return head + xxh3_64_intdigest(head).to_bytes(8, "little")

    @property
    def told(self) -> int:
        """1, as if it had been long ago, when that cannot be read."""
        mark = os.pread(self._index, 16, _TOLD_AT)
        if mark == bytes(16):
            return 0
        is_whole = xxh3_64_intdigest(mark[:8]) == int.from_bytes(mark[8:], "little")
        return int.from_bytes(mark[:8], "little") if is_whole else 1

    @told.setter
    def told(self, version: int) -> None:
        """Written behind the index, never before it: what it says has been forgotten there is."""
        self.sync_index()
        word = version.to_bytes(8, "little")
        os.pwrite(self._index, word + xxh3_64_intdigest(word).to_bytes(8, "little"), _TOLD_AT)

    def load(self, now_s: float) -> SlotTable:
        """The blocks that the index knows. What their records say is right; their data is checked when it is read."""
        table = SlotTable(memoryview(bytearray(table_bytes(self.num_slots))), self.num_slots)
        with failing_as_level(self.directory):
            content = os.pread(self._index, self.num_slots * _ENTRY_BYTES, _HEAD_BYTES)
        entries = np.frombuffer(content, np.uint64).reshape(-1, _ENTRY_WORDS)
        known = len(entries)
        table.records[:known] = entries[:, :RECORD_WORDS]
        last, previous = np.ascontiguousarray(entries[:, RECORD_WORDS : RECORD_WORDS + 2].T).view(np.float64)
        table.last[:known], table.previous[:known] = sane_uses(last, previous, now_s)
        table.state[:known] = np.where(entries[:, 0] | entries[:, 1], READY, FREE)
        table.rebuild()
        return table

    def note(self, table: SlotTable, slots: Sequence[int]) -> None:
        """Write what the table says of these slots; nothing of those that hold no block."""
        if not slots:
            return
        first, end = min(slots), max(slots) + 1
        if len(slots) == 1 or end - first > 2 * len(slots):
            for slot in slots:
                os.pwrite(self._index, _entries(table, slot, slot + 1), _HEAD_BYTES + slot * _ENTRY_BYTES)
        else:
            os.pwrite(self._index, _entries(table, first, end), _HEAD_BYTES + first * _ENTRY_BYTES)

    @property
    def is_removed(self) -> bool:
        """Whether what is written is lost with this process, since nothing in the file system leads to it."""
        return any(os.fstat(fd).st_nlink == 0 for fd in self._fds)

    def sync_index(self) -> None:
        os.fdatasync(self._index)

    def read(self, slot: int, buffer: memoryview) -> bool:
        """Whether there was as much as was asked for."""
        return os.preadv(self._blocks, [buffer], slot * self.slot_bytes) == len(buffer)

    def write(self, slot: int, data: memoryview) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._blocks, data[written:], slot * self.slot_bytes + written)

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())


def _slot_bytes(block_bytes: int) -> int:
    return -(-block_bytes // _PAGE) * _PAGE


def _entries(table: SlotTable, first: int, end: int) -> bytes:
    entries = np.zeros((end - first, _ENTRY_WORDS), np.uint64)
    entries[:, :RECORD_WORDS] = table.records[first:end]
    entries[:, RECORD_WORDS] = table.last[first:end].view(np.uint64)
    entries[:, RECORD_WORDS + 1] = table.previous[first:end].view(np.uint64)
    entries[table.state[first:end] != READY] = 0
    return entries.tobytes()
