import os
from pathlib import Path

import pytest

from tailrace.levels.api import LevelFailure
from tailrace.levels.lock import FileLocks
from tests.support.killed import forked


def locks_of(path: Path, timeout_s: float = 0.0) -> FileLocks:
    return FileLocks(os.open(path, os.O_RDWR | os.O_CREAT), str(path), timeout_s)


def test_two_openings_exclude_each_other_byte_by_byte_also_in_one_process(tmp_path: Path) -> None:
    one, other = locks_of(tmp_path / "file"), locks_of(tmp_path / "file")
    assert one.try_lock(5)
    assert not other.try_lock(5)
    assert other.is_held_elsewhere(5)
    assert other.is_held_elsewhere(0, 6)
    assert not one.is_held_elsewhere(5)
    assert other.try_lock(6)
    one.unlock(5)
    assert other.try_lock(5)


def test_who_waits_too_long_is_told_for_what(tmp_path: Path) -> None:
    one, other = locks_of(tmp_path / "file"), locks_of(tmp_path / "file")
    with one.held(1), pytest.raises(LevelFailure, match="file"), other.held(1):
        raise AssertionError("has a lock that another holds")
    with other.held(1):
        assert one.is_held_elsewhere(1)


def lock_and_die(path: Path) -> None:
    assert locks_of(path).try_lock(1)
    os.kill(os.getpid(), 9)


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    process = forked(lock_and_die, tmp_path / "file")
    process.join()
    assert process.exitcode == -9
    assert locks_of(tmp_path / "file").try_lock(1)


def test_a_file_that_cannot_be_locked_is_a_failure(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    locks = FileLocks(fd, str(tmp_path / "file"), 0.0)
    os.close(fd)
    with pytest.raises(LevelFailure, match="cannot be locked: Bad file descriptor"):
        locks.try_lock(1)
