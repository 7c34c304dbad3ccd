"""Locks on the bytes of a file, between processes: the kernel drops those of a process that dies.

They are "open file description" locks: two openings of a file exclude each other in one process too, and closing an
unrelated opening drops nothing (both are otherwise with POSIX record locks; `flock` knows only whole files). A mutex in
shared memory would have to find out by itself that its owner is dead. A process that was forked, and runs nothing else,
shares the locks of its parent: who opens a level must not fork so.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct

from tailrace.levels.api import LevelFailure

__all__ = ["FileLocks"]

_FLOCK = Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid
_POLL_S = 50e-6
_LONGEST_POLL_S = 2e-3


class FileLocks:
    """Exclusive locks on single bytes of the file behind `fd`, which need not reach that far."""

    def __init__(self, fd: int, path: str, timeout_s: float) -> None:
        self._fd = fd
        self._path = path
        self._timeout_s = timeout_s

    def try_lock(self, byte: int) -> bool:
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, byte))
        except BlockingIOError:
            return False
        except OSError as error:
            raise LevelFailure(f"{self._path} cannot be locked: {error.strerror}") from error
        return True

    def unlock(self, byte: int) -> None:
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, byte))

    def is_held_elsewhere(self, byte: int, count: int = 1) -> bool:
        """Whether another opening of the file has any of `count` bytes."""
        answer = fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, byte, count))
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    @contextmanager
    def held(self, byte: int) -> Iterator[None]:
        """Polls, since the kernel's own waiting has no time limit: a stopped process must not stop the others."""
        deadline_s, pause_s = time.monotonic() + self._timeout_s, _POLL_S
        while not self.try_lock(byte):
            if time.monotonic() > deadline_s:
                raise LevelFailure(f"another process has held the lock of {self._path} for {self._timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)
        try:
            yield
        finally:
            self.unlock(byte)


def _flock(kind: int, byte: int, count: int = 1) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, count, 0)
