"""The host level's delta log: the last 4,096 forgets, in the segment itself.

    record   version | writer | scope | target 2 | 0 0 | seal

A record is written before the version that makes it known, by whoever holds the segment's lock. Readers need no lock: a
record that is being overwritten has another version, or no seal.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.delta_log import Deltas
from tailrace.levels.layout import LOG_RECORD_WORDS, Head

__all__ = ["ForgetRing"]

_SCOPES = tuple(Scope)


class _Entry(NamedTuple):
    writer: int
    forget: Forget


class ForgetRing:
    """`records` [n, 8] of the mapping; `writer` is a number that no other user of it has."""

    def __init__(self, head: Head, records: NDArray[np.uint64], writer: int) -> None:
        self._head = head
        self._records = records
        self._writer = writer

    def version(self) -> int:
        return self._head.newest

    def read(self, since: int) -> Deltas:
        newest = self.version()
        entries = self._entries(since, newest)
        if entries is None:
            return Deltas(newest, is_complete=False)
        return Deltas(newest, tuple(entry.forget for entry in entries if entry.writer != self._writer))

    def append(self, forgets: Sequence[Forget]) -> None:
        for version, forget in enumerate(forgets, self._head.newest + 1):
            self._write(version, forget)
            self._head.newest = version

    def unapplied(self) -> tuple[Forget, ...] | None:
        """What its writer died over. None: more than is known."""
        entries = self._entries(self._head.applied, self._head.newest)
        return None if entries is None else tuple(entry.forget for entry in entries)

    def applied(self) -> None:
        self._head.applied = self._head.newest

    def _write(self, version: int, forget: Forget) -> None:
        record = np.zeros(LOG_RECORD_WORDS, np.uint64)
        record[:3] = version, self._writer, _SCOPES.index(forget.scope)
        record[3:5] = np.frombuffer(forget.target, np.uint64)
        record[-1] = xxh3_64_intdigest(record[:-1].tobytes())
        self._records[version % len(self._records)] = record

    def _entries(self, since: int, newest: int) -> list[_Entry] | None:
        if not 0 <= newest - since <= len(self._records):
            return None
        entries = [self._entry(version) for version in range(since + 1, newest + 1)]
        known = [entry for entry in entries if entry is not None]
        return known if len(known) == len(entries) else None

    def _entry(self, version: int) -> _Entry | None:
        record = self._records[version % len(self._records)].copy()
        if record[0] != version or record[-1] != xxh3_64_intdigest(record[:-1].tobytes()):
            return None
        return _Entry(int(record[1]), Forget(_SCOPES[int(record[2])], record[3:5].tobytes()))
