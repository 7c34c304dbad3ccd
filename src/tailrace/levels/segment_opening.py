"""Who may open the host level's file, and what becomes of one that is there but not as it is wanted.

A file that nobody uses and that has another size or layout is never changed in place: a new one is laid out beside it,
takes its blocks, and then its name. So whoever fails, or finds no room, leaves the old one as it was.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tailrace.levels.api import LevelFailure, TooSmall
from tailrace.levels.layout import HEAD_BYTES, OPENING_LOCK, USER_LOCKS, Head, Layout
from tailrace.levels.lock import FileLocks
from tailrace.levels.segment import Segment

__all__ = ["open_segment"]

logger = logging.getLogger(__name__)

_TRIES = 8  # to open a file that others remove
_TIMEOUT_S = 1.0  # for locks that nobody has any business to hold
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

Move = Callable[[Segment, Segment], None]


class _Wanted(NamedTuple):
    layout: Layout
    max_bytes: int  # what was asked for
    move: Move


def open_segment(path: Path, block_bytes: int, max_bytes: int, timeout_s: float, move: Move) -> Segment:
    """The segment that is there, if it fits; else a new one, unless someone uses the old. Raises LevelFailure.

    `move` brings the blocks of an old segment, the first, to an empty one that takes its place.
    """
    layout = Layout.within(block_bytes, max_bytes)
    if layout is None:
        least = Layout(block_bytes, 1).file_bytes
        raise TooSmall(f"{max_bytes} bytes are too few for one block: the host level needs at least {least}")
    try:
        for _ in range(_TRIES):
            segment = _try_to_open(path, _Wanted(layout, max_bytes, move), timeout_s)
            if segment is not None:
                return segment
    except OSError as error:
        raise LevelFailure(f"cannot open {path}: {error.strerror}") from error
    raise LevelFailure(f"{path} is removed as often as it is made")


def _try_to_open(path: Path, wanted: _Wanted, timeout_s: float) -> Segment | None:
    """None when it is to be tried again: the file has gone meanwhile, or has just been replaced."""
    fd = os.open(path, _FLAGS, 0o600)
    segment = None
    try:
        _check_owner(fd, path)
        locks = FileLocks(fd, str(path), timeout_s)
        with locks.held(OPENING_LOCK):
            if _is_at(fd, path):
                _fresh(path).unlink(missing_ok=True)  # of one who was killed while he replaced this
                there = Layout.of_file(fd)
                if there == wanted.layout or locks.is_held_elsewhere(USER_LOCKS[0], len(USER_LOCKS)):
                    layout = _shared(path, there, wanted)
                    segment = Segment(fd, path, layout, locks, _new_user(locks, path))
                else:
                    _replace(fd, path, there, wanted)
    finally:
        if segment is None:
            os.close(fd)
    return segment


def _check_owner(fd: int, path: Path) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
        raise LevelFailure(f"{path} belongs to somebody else, who could read what is kept there: remove it")
    os.fchmod(fd, 0o600)


def _is_at(fd: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


def _shared(path: Path, there: Layout | None, wanted: _Wanted) -> Layout:
    """The layout to go by: that of the file, which is as wanted, or in use."""
    if there is None or there.block_bytes != wanted.layout.block_bytes:
        raise LevelFailure(f"{path} is not what this version makes, and is in use: stop the server that uses it")
    if there.file_bytes > wanted.max_bytes:
        raise LevelFailure(
            f"{path} is in use with {there.file_bytes} bytes, which is over the bound of {wanted.max_bytes}:"
            " give all engines of this host the same size"
        )
    if there != wanted.layout:
        logger.warning(
            "%s is in use with %s bytes, so that is its size, and not %s bytes",
            path,
            f"{there.file_bytes:,}",
            f"{wanted.max_bytes:,}",
        )
    return there


def _new_user(locks: FileLocks, path: Path) -> int:
    for user, byte in enumerate(USER_LOCKS):
        if locks.try_lock(byte):
            return user
    raise LevelFailure(f"{len(USER_LOCKS)} engines use {path}, which is as many as it has places for")


def _fresh(path: Path) -> Path:
    """A segment too, for those who list and remove them."""
    return path.with_suffix(".new.kv")


def _replace(old_fd: int, path: Path, there: Layout | None, wanted: _Wanted) -> None:
    fresh = _fresh(path)
    fd = os.open(fresh, _FLAGS | os.O_EXCL, 0o600)
    try:
        with FileLocks(fd, str(fresh), _TIMEOUT_S).held(OPENING_LOCK):
            if not _is_at(fd, fresh):
                return  # somebody has cleared it away, before it was in use
            _lay_out(fd, path, wanted)
            if there is not None and there.block_bytes == wanted.layout.block_bytes:
                with _using(old_fd, path, there) as old, _using(fd, fresh, wanted.layout) as new:
                    wanted.move(old, new)
            fresh.rename(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        if os.fstat(old_fd).st_size == 0:
            path.unlink()
        raise
    finally:
        os.close(fd)


def _lay_out(fd: int, path: Path, wanted: _Wanted) -> None:
    layout = wanted.layout
    try:
        os.ftruncate(fd, layout.file_bytes)
        os.posix_fallocate(fd, 0, layout.slots_at)
    except OSError as error:
        raise LevelFailure(
            f"{path.parent} has no room for {wanted.max_bytes:,} bytes, of which {layout.slots_at:,} are needed"
            f" at once: {error.strerror}"
        ) from error
    head = Head(memoryview(started := bytearray(HEAD_BYTES)))
    head.newest = head.applied = time.time_ns()  # above all versions of a log that was here before
    os.pwrite(fd, started, 0)
    os.pwrite(fd, layout.fixed_head(), 0)


@contextmanager
def _using(fd: int, path: Path, layout: Layout) -> Iterator[Segment]:
    """Its locks are those of `fd`."""
    own = os.dup(fd)
    try:
        locks = FileLocks(own, str(path), _TIMEOUT_S)
        segment = Segment(own, path, layout, locks, _new_user(locks, path))
    except BaseException:
        os.close(own)
        raise
    try:
        yield segment
    finally:
        segment.close()
