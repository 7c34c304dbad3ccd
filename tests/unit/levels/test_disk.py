import errno
import os
import random
import shutil
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import LevelFailure
from tailrace.levels.disk import DiskLevel
from tailrace.levels.disk_files import DiskFiles
from tests.support.blocks import FINGERPRINT, chain, fetched, stored
from tests.support.killed import forked

BLOCK = 4000
SECTOR = 512


def bound(num_blocks: int) -> int:
    return DiskFiles.bytes_for(BLOCK, num_blocks)


def open_level(directory: Path, num_blocks: int = 8) -> DiskLevel:
    return DiskLevel(directory, BLOCK, bound(num_blocks))


def put(level: DiskLevel, heads: list[BlockHead]) -> int:
    return level.put(stored(heads, BLOCK), 0)


def bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def full_beyond(end: int) -> Callable[[int, bytes, int], int]:
    """`os.pwrite` on a disk that has no room behind byte `end` of any file."""
    pwrite = os.pwrite

    def write(fd: int, data: bytes, offset: int) -> int:
        room = end - offset
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, data[:room], offset)

    return write


def test_blocks_are_there_after_a_restart_and_in_another_order_of_use(tmp_path: Path) -> None:
    heads = chain("a", 6)
    level = open_level(tmp_path)
    assert put(level, heads) == 6
    assert fetched(level, heads, BLOCK) == 6
    level.close()
    again = open_level(tmp_path)
    assert again.contain([head.name for head in heads]) == 6
    assert fetched(again, heads, BLOCK) == 6
    assert again.stats().num_blocks == 6
    assert again.stats().num_corrupt == 0


def test_all_files_together_stay_within_the_bound_and_nobody_else_can_read_them(tmp_path: Path) -> None:
    level = DiskLevel(tmp_path / "kv", BLOCK, bound(8) + 4000)
    for label in "abcdef":
        assert put(level, chain(label, 4)) == 4
        assert bytes_in(tmp_path / "kv") <= bound(8)
    assert level.stats().num_blocks == 8
    assert level.stats().num_evicted == 16
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "kv").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "kv").stat().st_mode) == 0o700


def test_a_second_opener_is_told_who_is_there(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    with pytest.raises(LevelFailure, match=f"in use by process {os.getpid()}"):
        open_level(tmp_path)
    level.close()
    open_level(tmp_path).close()


def fill_and_die(directory: Path) -> None:
    put(open_level(directory), chain("a", 3))
    os.kill(os.getpid(), 9)


def test_a_killed_server_leaves_its_directory_to_the_next(tmp_path: Path) -> None:
    process = forked(fill_and_die, tmp_path)
    process.join()
    assert fetched(open_level(tmp_path), chain("a", 3), BLOCK) == 3


@pytest.mark.parametrize("num_blocks", [4, 20])
def test_another_bound_keeps_what_fits_in_it(tmp_path: Path, num_blocks: int) -> None:
    heads = chain("a", 8)
    level = open_level(tmp_path)
    put(level, heads)
    level.close()
    again = open_level(tmp_path, num_blocks)
    assert fetched(again, heads, BLOCK) == min(8, num_blocks)
    put(again, chain("b", 2))
    assert bytes_in(tmp_path) <= bound(num_blocks)


def test_blocks_of_another_size_make_way_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 8))
    level.close()
    (tmp_path / "precious").write_bytes(b"other")
    other = DiskLevel(tmp_path, 6000, bound(8))
    assert other.stats().num_blocks == 0
    assert bytes_in(tmp_path) <= bound(8)
    assert (tmp_path / "precious").exists()
    (record,) = caplog.records
    num_bytes = f"{7 * 4096 + BLOCK:,}"
    assert f"{tmp_path}: {num_bytes} bytes of KV blocks of another size were removed" in record.getMessage()


def test_a_directory_that_was_removed_takes_no_more_blocks_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    level = open_level(tmp_path / "kv")
    heads = chain("a", 3)
    put(level, heads)
    level.stats()
    assert caplog.records == []
    shutil.rmtree(tmp_path / "kv")
    with pytest.raises(LevelFailure, match="was removed: start the server again"):
        put(level, chain("b", 1))
    level.stats()
    level.stats()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"what lay in {tmp_path / 'kv'} was removed"
    ]
    assert fetched(level, heads, BLOCK) == 3


def test_the_least_worthy_goes_as_after_a_restart(tmp_path: Path) -> None:
    times = iter(np.arange(1.0, 100.0).tolist())
    a, b, c, d = (chain(label, 1) for label in "abcd")
    level = DiskLevel(tmp_path, BLOCK, bound(3), clock=lambda: next(times))
    for heads in (a, b, c):
        put(level, heads)
    assert fetched(level, a, BLOCK) == 1
    level.close()
    again = DiskLevel(tmp_path, BLOCK, bound(3), clock=lambda: next(times))
    put(again, d)
    assert [again.contain([head.name]) for head in a + b + c + d] == [1, 0, 1, 1]


def test_a_clock_that_was_set_back_keeps_nothing_forever(tmp_path: Path) -> None:
    level = DiskLevel(tmp_path, BLOCK, bound(2), clock=lambda: 1e9)
    put(level, chain("a", 1) + chain("b", 1))
    level.close()
    again = DiskLevel(tmp_path, BLOCK, bound(2), clock=lambda: 1000.0)
    assert put(again, chain("c", 1)) == 1
    assert again.stats().num_blocks == 2


@pytest.mark.parametrize("where", ["index", "blocks"])
def test_damage_on_disk_is_a_miss(tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture) -> None:
    heads = chain("a", 3)
    level = open_level(tmp_path)
    put(level, heads)
    level.close()
    content = bytearray((path := tmp_path / f"tailrace-{BLOCK}.{where}").read_bytes())
    at = content.index(heads[1].name if where == "index" else bytes(stored(heads, BLOCK)[1].data))
    content[at + 30] ^= 4
    path.write_bytes(content)
    again = open_level(tmp_path)
    assert fetched(again, heads, BLOCK) == 1
    assert fetched(again, heads, BLOCK) == 1
    assert put(again, heads) == 3
    assert fetched(again, heads, BLOCK) == 3
    assert len(caplog.records) == (where == "blocks")


@pytest.mark.parametrize("length", [0, 7, 4096, 4096 + 200])
def test_a_shorter_index_is_no_obstacle(tmp_path: Path, length: int) -> None:
    heads = chain("a", 3)
    level = open_level(tmp_path)
    put(level, heads)
    level.close()
    os.truncate(tmp_path / f"tailrace-{BLOCK}.index", length)
    again = open_level(tmp_path)
    assert fetched(again, heads, BLOCK) == max(0, (length - 4096) // 128)
    assert put(again, heads) == 3


def test_a_shorter_file_of_blocks_is_a_miss(tmp_path: Path) -> None:
    heads = chain("a", 3)
    level = open_level(tmp_path)
    put(level, heads)
    os.truncate(tmp_path / f"tailrace-{BLOCK}.blocks", 4096 + 100)
    assert fetched(level, heads, BLOCK) == 1
    assert level.stats().num_corrupt == 1


def test_a_full_disk_keeps_to_the_room_it_had_and_takes_more_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 3))
    monkeypatch.setattr(os, "pwrite", full_beyond(3 * 4096 + 100))
    assert put(level, chain("b", 2)) == 2
    assert level.stats().num_blocks == 3
    assert fetched(level, chain("b", 2), BLOCK) == 2
    monkeypatch.undo()
    assert put(level, chain("c", 5)) == 5
    assert level.stats().num_blocks == 8


def test_a_disk_that_is_full_from_the_start_is_a_failure_until_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = open_level(tmp_path)
    monkeypatch.setattr(os, "pwrite", full_beyond(0))
    with pytest.raises(LevelFailure, match="No space left"):
        put(level, chain("a", 1))
    monkeypatch.undo()
    assert put(level, chain("a", 1)) == 1


def test_what_cannot_be_read_is_a_failure_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 2))

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(LevelFailure, match="Input/output error"):
        fetched(level, chain("a", 2), BLOCK)
    monkeypatch.undo()
    assert fetched(level, chain("a", 2), BLOCK) == 0
    assert put(level, chain("a", 2)) == 2
    assert fetched(level, chain("a", 2), BLOCK) == 2


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LevelFailure, match="file"):
        open_level(tmp_path / "file" / "kv")
    with pytest.raises(LevelFailure, match="too few"):
        DiskLevel(tmp_path / "kv", BLOCK, bound(1) - 1)


def test_what_was_forgotten_does_not_come_back_with_a_restart(tmp_path: Path) -> None:
    heads = chain("a", 5)
    level = open_level(tmp_path)
    put(level, heads)
    assert level.forget([Forget(Scope.BLOCK, heads[1].name)]) == 1
    level.close()
    level = open_level(tmp_path)
    assert fetched(level, heads, BLOCK) == 1
    assert level.forget([Forget(Scope.PREFIX, heads[0].name)]) == 4  # also behind the gap
    level.close()
    assert open_level(tmp_path).stats().num_blocks == 0


def test_a_forget_that_could_not_be_written_is_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 2))
    monkeypatch.setattr(os, "pwrite", full_beyond(0))
    forgets = [Forget(Scope.FINGERPRINT, FINGERPRINT)]
    with pytest.raises(LevelFailure):
        level.forget(forgets)
    assert fetched(level, chain("a", 2), BLOCK) == 0
    monkeypatch.undo()
    level.forget(forgets)
    level.close()
    assert open_level(tmp_path).stats().num_blocks == 0


class LossyDisk:
    """Remembers what was written since the last sync, and leaves any part of it on a copy."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pending: dict[str, list[tuple[bytes, int]]] = {}
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(os, "fdatasync", lambda fd: self.pending.pop(self.name(fd), None))

    def name(self, fd: int) -> str:
        return Path(f"/proc/self/fd/{fd}").readlink().name

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        before = os.pread(fd, len(data), offset).ljust(len(data), b"\0")
        sectors = self.pending.setdefault(self.name(fd), [])
        first = -offset % SECTOR
        cuts = [0, *range(first or SECTOR, len(data), SECTOR), len(data)]
        sectors += [(before[a:b], offset + a) for a, b in pairwise(cuts)]
        return self._pwrite(fd, data, offset)

    def lose(self, directory: Path, into: Path, draw: random.Random) -> None:
        shutil.copytree(directory, into)
        for name, sectors in self.pending.items():
            with (into / name).open("r+b") as file:
                for before, offset in reversed(sectors):
                    if draw.random() < 0.5:
                        file.seek(offset)
                        file.write(before)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_leaves_right_blocks_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    draw = random.Random(seed)
    disk = LossyDisk(monkeypatch)
    level = open_level(tmp_path / "kv", 6)
    forgotten: set[str] = set()
    for _ in range(12):
        label = draw.choice("abcdefgh")
        if draw.random() < 0.3:
            level.forget([Forget(Scope.PREFIX, chain(label, 1)[0].name)])
            forgotten.add(label)
        else:
            put(level, chain(label, draw.randint(1, 4)))
            forgotten.discard(label)
    disk.lose(tmp_path / "kv", tmp_path / "lost", draw)
    after = open_level(tmp_path / "lost", 6)
    for label in "abcdefgh":
        for head in chain(label, 4):
            assert fetched(after, [head], BLOCK) <= (label not in forgotten)


def test_how_far_it_was_told_outlives_it_and_counts_as_long_ago_when_torn(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    assert level.told == 0
    put(level, chain("a", 2))
    level.told = 7 << 40
    level.close()

    again = open_level(tmp_path)
    assert again.told == 7 << 40
    assert again.contain([head.name for head in chain("a", 2)]) == 2
    again.close()
    with (tmp_path / f"tailrace-{BLOCK}.index").open("r+b") as index:
        index.seek(512)
        index.write(b"\1")
    torn = open_level(tmp_path)
    assert torn.told == 1
    torn.close()
