"""What lies where in the host level's file. Numbers are words of 8 bytes in the order of the machine.

    0              head        fixed when the file is made
                     0  magic             "TAILRACE"
                     8  layout version    what this file draws, and slots.py
                    16  block_bytes
                    24  num_slots
                    32  file_bytes
                    40  seal              hash of the words before
                    48  is_changing       1 while someone changes what follows; found by the next if he died
                    56  newest            version of the newest record in the log
                    64  applied           version up to which the log's records are carried out below
                    72  last_used_s       a float; whether a file without users is worth keeping
                    80  told              see levels/api.py
    4096           log         ring of 4,096 records of 64 bytes: forget_ring.py
    266240         table       columns of slots.py
    page           slot 0      a block's bytes
    + slot_bytes   slot 1      ...
    file_bytes

The file is as long as its bound allows from the start, but sparse: memory is taken slot by slot as they are first
written. The locks (lock.py) lie far behind its end: one byte for who opens it, one for who changes head, log and table,
and one for each user, held as long as he lives.
"""

import os
import sys
from bisect import bisect_right
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from tailrace.levels.slots import table_bytes

__all__ = [
    "HEAD_BYTES",
    "LOG_RECORDS",
    "LOG_RECORD_WORDS",
    "OPENING_LOCK",
    "TABLE_LOCK",
    "USER_LOCKS",
    "Head",
    "Layout",
]

LAYOUT_VERSION = 1
HEAD_BYTES = 4096
LOG_RECORDS = 4096
LOG_RECORD_WORDS = 8
OPENING_LOCK = 1 << 62
TABLE_LOCK = OPENING_LOCK + 1
USER_LOCKS = range(OPENING_LOCK + 16, OPENING_LOCK + 16 + 64)

_MAGIC = int.from_bytes(b"TAILRACE", "little")
_FIXED_BYTES = 48
_PAGE = 4096
_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Layout:
    block_bytes: int
    num_slots: int

    @classmethod
    def within(cls, block_bytes: int, max_bytes: int) -> Self | None:
        """As many slots as `max_bytes` have room for; None when that is none."""
        counts = range(1, max_bytes // block_bytes + 1)
        num_slots = bisect_right(counts, max_bytes, key=lambda count: cls(block_bytes, count).file_bytes)
        return cls(block_bytes, num_slots) if num_slots else None

    @property
    def slot_bytes(self) -> int:
        return _rounded_up(self.block_bytes, _ALIGN)

    @property
    def table_at(self) -> int:
        return HEAD_BYTES + LOG_RECORDS * LOG_RECORD_WORDS * 8

    @property
    def slots_at(self) -> int:
        return _rounded_up(self.table_at + table_bytes(self.num_slots), _PAGE)

    @property
    def file_bytes(self) -> int:
        return self.slot_at(self.num_slots)

    def slot_at(self, slot: int) -> int:
        return self.slots_at + slot * self.slot_bytes

    def fixed_head(self) -> bytes:
        words = (_MAGIC, LAYOUT_VERSION, self.block_bytes, self.num_slots, self.file_bytes)
        fixed = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
        return fixed + xxh3_64_intdigest(fixed).to_bytes(8, sys.byteorder)

    @classmethod
    def of_file(cls, fd: int) -> Self | None:
        """That of a file as long as its head says; None when it is torn, no such file, or of another version."""
        layout = cls._read(os.pread(fd, _FIXED_BYTES, 0))
        return layout if layout and layout.file_bytes == os.fstat(fd).st_size else None

    @classmethod
    def _read(cls, fixed: bytes) -> Self | None:
        if len(fixed) < _FIXED_BYTES or xxh3_64_intdigest(fixed[:-8]) != int.from_bytes(fixed[-8:], sys.byteorder):
            return None
        words = memoryview(fixed).cast("Q")
        layout = cls(words[2], words[3])
        return layout if fixed == layout.fixed_head() else None


class Head:
    """The words of the head that change, over the file's first bytes."""

    def __init__(self, buffer: memoryview) -> None:
        self._words: NDArray[np.uint64] = np.frombuffer(buffer, np.uint64, 11)
        self._times: NDArray[np.float64] = np.frombuffer(buffer, np.float64, 10)

    @property
    def is_changing(self) -> bool:
        return bool(self._words[6])

    @is_changing.setter
    def is_changing(self, value: bool) -> None:
        self._words[6] = value

    @property
    def newest(self) -> int:
        return int(self._words[7])

    @newest.setter
    def newest(self, version: int) -> None:
        self._words[7] = version

    @property
    def applied(self) -> int:
        return int(self._words[8])

    @applied.setter
    def applied(self, version: int) -> None:
        self._words[8] = version

    @property
    def told(self) -> int:
        return int(self._words[10])

    @told.setter
    def told(self, version: int) -> None:
        self._words[10] = version

    @property
    def last_used_s(self) -> float:
        return float(self._times[9])

    @last_used_s.setter
    def last_used_s(self, now_s: float) -> None:
        self._times[9] = now_s


def _rounded_up(num_bytes: int, unit: int) -> int:
    return -(-num_bytes // unit) * unit
