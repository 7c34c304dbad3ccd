"""The segments of shared memory that are there: what they hold, who uses them, and their removal."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tailrace.levels.api import LevelFailure
from tailrace.levels.config import HOST_DIRECTORY
from tailrace.levels.layout import HEAD_BYTES, OPENING_LOCK, USER_LOCKS, Head, Layout
from tailrace.levels.lock import FileLocks
from tailrace.levels.segment import host_path
from tailrace.levels.slots import SlotTable, table_bytes

__all__ = ["SegmentReport", "list_segments", "remove_segment", "remove_stale"]

_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """`layout` is None for a file that this version cannot read. `memory_bytes` is what it takes at present."""

    path: Path
    layout: Layout | None
    memory_bytes: int
    num_blocks: int
    num_users: int
    idle_s: float


def list_segments(directory: Path = HOST_DIRECTORY) -> list[SegmentReport]:
    """Those of this user, by name."""
    reports = []
    for path in sorted(directory.glob(host_path("*", directory).name)):
        with suppress(OSError), _opened(path) as fd:  # it may be gone, or something else that is called so
            reports.append(_report(path, fd))
    return reports


def remove_segment(path: Path) -> None:
    """Raises LevelFailure for one that is in use: its memory would stay taken, and found by nobody."""
    with suppress(FileNotFoundError), _opened(path) as fd:
        locks = FileLocks(fd, str(path), _TIMEOUT_S)
        with locks.held(OPENING_LOCK):
            if locks.is_held_elsewhere(USER_LOCKS[0], len(USER_LOCKS)):
                raise LevelFailure(f"{path} is in use: stop the servers that use it first")
            path.unlink()


def remove_stale(directory: Path, ttl_s: float, kept: Path) -> None:
    """Remove what nobody uses and has used for so long: left behind by servers with blocks of another size."""
    for report in list_segments(directory):
        if report.path != kept and report.num_users == 0 and report.idle_s > ttl_s:
            with suppress(LevelFailure, OSError):
                remove_segment(report.path)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _report(path: Path, fd: int) -> SegmentReport:
    locks = FileLocks(fd, str(path), _TIMEOUT_S)
    num_users = sum(locks.is_held_elsewhere(byte) for byte in USER_LOCKS)
    memory_bytes = os.fstat(fd).st_blocks * 512
    layout = Layout.of_file(fd)
    if layout is None:
        return SegmentReport(path, None, memory_bytes, 0, num_users, time.time() - os.fstat(fd).st_mtime)
    table = os.pread(fd, table_bytes(layout.num_slots), layout.table_at)
    num_blocks = SlotTable(memoryview(table), layout.num_slots).num_ready
    idle_s = time.monotonic() - Head(memoryview(os.pread(fd, HEAD_BYTES, 0))).last_used_s
    return SegmentReport(path, layout, memory_bytes, num_blocks, num_users, idle_s)
