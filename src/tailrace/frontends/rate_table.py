"""What each client has asked for, counted over all processes that serve: accounts in memory that they share.

A slot, 32 bytes and two for each process:

    0        16             24           32
    | digest | requests     | tokens     | here, process 0 | here, process 1 | ...
    | of the | full again   | full again | u16             |
    | name   | ns, i64      | ns, i64    |

Who is not limited has no slot. One in which nothing is counted says nothing, whoever's it is: it may be given away.
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["MAX_HERE", "MAX_PROCESSES", "Account", "RateTable"]

MAX_PROCESSES = 64
MAX_HERE = 65_535
_SHARED_SLOTS = 8192
_REACH = 64  # slots in which a name may be
_LOCK_TRIES = 1000

_HEAD = struct.Struct("=16sqq")
_COUNTS = struct.Struct(f"={MAX_PROCESSES}H")
_COUNT = struct.Struct("=H")
_SLOT_BYTES = _HEAD.size + _COUNTS.size
_UNUSED = bytes(16)


@dataclass(slots=True)
class Account:
    """Of one client: the states of its rates (`gcra`), and how many of its requests are here, by process."""

    digest: bytes
    requests_full_ns: int
    tokens_full_ns: int
    here: list[int]

    def is_idle(self, now_ns: int) -> bool:
        return max(self.requests_full_ns, self.tokens_full_ns) <= now_ns and not any(self.here)


class RateTable:
    """The memory, and who may change it. One process alone needs no lock; `shared` is for processes that are forked."""

    def __init__(self, memory: bytearray | mmap.mmap, lock_fd: int | None = None) -> None:
        """`memory`, zeros at first, holds as many slots as it has room for."""
        self._memory = memory
        self._num_slots = len(memory) // _SLOT_BYTES
        self._lock_fd = lock_fd

    @classmethod
    def shared(cls, num_slots: int = _SHARED_SLOTS) -> "RateTable":
        """Make it before the fork. The memory has no name, and is gone with the last process."""
        descriptor = os.memfd_create("rates", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, num_slots * _SLOT_BYTES)
        return cls(mmap.mmap(descriptor, num_slots * _SLOT_BYTES), descriptor)

    @classmethod
    def alone(cls, num_slots: int = _REACH) -> "RateTable":
        return cls(bytearray(num_slots * _SLOT_BYTES))

    def forget_process(self, process: int) -> None:
        """None of its requests are here: it is about to begin, perhaps in the place of one that died."""
        for index in range(self._num_slots):
            if self._read(index).here[process]:
                self._write_count(index, process, 0)

    @contextmanager
    def account(self, digest: bytes, process: int, now_ns: int) -> Iterator[Account | None]:
        """A client's account to read and change, which nobody else changes meanwhile; None: no room is left for it.

        Of `here`, a process changes its own place alone.
        """
        with self._locked():
            index = self._find(digest, now_ns)
            if index is None:
                yield None
                return
            account = self._read(index)
            if account.digest != digest:
                account = Account(digest, 0, 0, [0] * MAX_PROCESSES)
            yield account
            _HEAD.pack_into(self._memory, index * _SLOT_BYTES, digest, account.requests_full_ns, account.tokens_full_ns)
            self._write_count(index, process, account.here[process])

    def _find(self, digest: bytes, now_ns: int) -> int | None:
        """Where the account is; else where it may begin."""
        first = int.from_bytes(digest[:8], "little")
        idle: int | None = None
        for step in range(min(_REACH, self._num_slots)):
            index = (first + step) % self._num_slots
            account = self._read(index)
            if account.digest == digest:
                return index
            if idle is None and account.is_idle(now_ns):
                idle = index
            if account.digest == _UNUSED:
                break
        return idle

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """A process that dies lets go. One that is held up itself is not waited for long: a count that gets lost is a
        request too many, while a wait would hold up every stream."""
        if self._lock_fd is None:
            yield
            return
        has_lock = _try_lock(self._lock_fd)
        try:
            yield
        finally:
            if has_lock:
                fcntl.lockf(self._lock_fd, fcntl.LOCK_UN)

    def _read(self, index: int) -> Account:
        start = index * _SLOT_BYTES
        digest, requests_ns, tokens_ns = _HEAD.unpack_from(self._memory, start)
        here = _COUNTS.unpack_from(self._memory, start + _HEAD.size)
        return Account(digest, requests_ns, tokens_ns, list(here))

    def _write_count(self, index: int, process: int, count: int) -> None:
        _COUNT.pack_into(self._memory, index * _SLOT_BYTES + _HEAD.size + process * _COUNT.size, count)


def _try_lock(descriptor: int) -> bool:
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.sched_yield()
        else:
            return True
    return False
