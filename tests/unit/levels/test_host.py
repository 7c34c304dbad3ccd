import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import LevelFailure, Outdated
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tailrace.levels.segment import host_path
from tests.support.blocks import FINGERPRINT, TENANT, chain, fetched, stored, word

BLOCK = 1000


def bound(num_blocks: int, block_bytes: int = BLOCK) -> int:
    return Layout(block_bytes, num_blocks).file_bytes


def open_level(directory: Path, num_blocks: int = 8) -> HostLevel:
    return HostLevel(BLOCK, bound(num_blocks), directory=directory, lock_timeout_s=0.1)


def put(level: HostLevel, heads: list[BlockHead], version: int | None = None) -> int:
    return level.put(stored(heads, BLOCK), level.log.version() if version is None else version)


def test_a_block_is_found_by_all_who_share_the_host_and_by_those_who_come_later(tmp_path: Path) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    heads = chain("a", 5)
    assert put(one, heads) == 5
    assert other.contain([head.name for head in heads]) == 5
    assert fetched(other, heads, BLOCK) == 5
    one.close()
    other.close()
    again = open_level(tmp_path)
    assert fetched(again, heads, BLOCK) == 5
    assert put(again, heads) == 5
    assert again.stats().num_blocks == 5


def test_the_run_ends_where_a_block_is_missing(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    heads = chain("a", 5)
    put(level, heads[:2] + heads[3:])
    assert level.contain([head.name for head in heads]) == 2
    assert fetched(level, heads, BLOCK) == 2
    assert level.contain([]) == 0
    assert level.get([], []) == 0
    assert level.put([], level.log.version()) == 0


def test_the_file_is_never_larger_than_its_bound_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    level = HostLevel(BLOCK, bound(8) + 900, directory=tmp_path)
    for label in "abcdef":
        assert put(level, chain(label, 4)) == 4
    status = host_path(BLOCK, tmp_path).stat()
    assert status.st_size == level.stats().max_bytes == bound(8)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert level.stats().num_blocks == 8
    assert level.stats().num_evicted == 16


def test_memory_is_taken_as_slots_are_first_written(tmp_path: Path) -> None:
    level = HostLevel(1 << 16, bound(64, 1 << 16), directory=tmp_path)
    before = host_path(1 << 16, tmp_path).stat().st_blocks * 512
    level.put(stored(chain("a", 2), 1 << 16), level.log.version())
    taken = host_path(1 << 16, tmp_path).stat().st_blocks * 512 - before
    assert 2 << 16 <= taken <= 3 << 16


def test_a_prompt_longer_than_the_level_keeps_its_beginning(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    heads = chain("a", 20)
    assert put(level, heads) == 8
    assert fetched(level, heads, BLOCK) == 8


def test_a_bound_too_small_for_a_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LevelFailure, match="too few"):
        HostLevel(BLOCK, bound(1) - 1, directory=tmp_path)


def test_a_place_without_shared_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LevelFailure, match="cannot open"):
        open_level(tmp_path / "missing")


def test_a_larger_size_than_that_in_use_is_said_not_to_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_level(tmp_path, 8)
    open_level(tmp_path, 8)
    assert caplog.records == []
    open_level(tmp_path, 9)
    (record,) = caplog.records
    assert f"in use with {bound(8):,} bytes, so that is its size, and not {bound(9):,}" in record.getMessage()


def test_a_new_size_takes_the_blocks_over_unless_the_old_is_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    level = open_level(tmp_path, 8)
    heads = chain("a", 3)
    put(level, heads)
    level.told = 7
    smaller = pytest.raises(LevelFailure, match="over the bound")
    with smaller:
        open_level(tmp_path, 7)
    larger = open_level(tmp_path, 9)
    assert larger.stats().max_bytes == bound(8)
    version = level.log.version()
    level.close()
    larger.close()
    caplog.clear()
    fresh = open_level(tmp_path, 9)
    assert fetched(fresh, heads, BLOCK) == fresh.stats().num_blocks == 3
    assert fresh.stats().max_bytes == bound(9)
    assert fresh.told == 7
    assert fresh.log.version() > version
    assert caplog.records == []
    assert list(tmp_path.iterdir()) == [host_path(BLOCK, tmp_path)]
    assert fresh.forget([Forget(Scope.PREFIX, heads[1].name)]) == 2


def test_a_smaller_size_keeps_what_the_policy_would_and_says_what_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter(np.arange(1.0, 100.0).tolist())
    level = HostLevel(BLOCK, bound(100), directory=tmp_path, clock=lambda: next(times))
    a, b, c = (chain(label, 40) for label in "abc")
    for heads in (a, b):
        put(level, heads)
    assert fetched(level, a, BLOCK) == 40
    level.close()
    smaller = HostLevel(BLOCK, bound(50), directory=tmp_path, clock=lambda: next(times))
    assert [fetched(smaller, heads, BLOCK) for heads in (a, b)] == [40, 10]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{host_path(BLOCK, tmp_path)} has another size now: 30 of its 80 KV blocks were dropped"
    )
    put(smaller, c)
    assert [fetched(smaller, heads, BLOCK) for heads in (a, b, c)] == [10, 0, 40]


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_size_without_room_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = open_level(tmp_path)
    heads = chain("a", 3)
    put(level, heads)
    level.close()
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", no_room)
        for block_bytes in (BLOCK, BLOCK + 1):
            with pytest.raises(LevelFailure, match=f"no room for {bound(9) + 7:,} bytes"):
                HostLevel(block_bytes, bound(9) + 7, directory=tmp_path)
    assert list(tmp_path.iterdir()) == [host_path(BLOCK, tmp_path)]
    assert fetched(open_level(tmp_path), heads, BLOCK) == 3


def test_a_move_takes_little_memory_and_ends_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    block_bytes = 1 << 16
    level = HostLevel(block_bytes, bound(200, block_bytes), directory=tmp_path)
    heads = chain("a", 200)
    level.put(stored(heads, block_bytes), level.log.version())
    level.close()
    taken: list[int] = []
    allocate = os.posix_fallocate

    def with_little_room(fd: int, offset: int, length: int) -> None:
        if len(taken) == 151:  # the table, and slots
            no_room()
        allocate(fd, offset, length)
        taken.append(sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()))

    monkeypatch.setattr(os, "posix_fallocate", with_little_room)
    larger = HostLevel(block_bytes, bound(300, block_bytes), directory=tmp_path)
    monkeypatch.undo()
    assert max(taken) < bound(240, block_bytes)
    assert larger.stats().num_blocks == 150
    assert "50 of its 200 KV blocks were dropped" in caplog.text


def test_what_was_left_half_moved_is_cleared_away(tmp_path: Path) -> None:
    host_path(BLOCK, tmp_path).with_suffix(".new.kv").write_bytes(b"of one who was killed")
    open_level(tmp_path)
    assert list(tmp_path.iterdir()) == [host_path(BLOCK, tmp_path)]


@pytest.mark.parametrize("place", [0, 8, 16, 24, 32, 40])
def test_a_head_that_is_wrong_is_never_believed(tmp_path: Path, place: int) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 3))
    path = host_path(BLOCK, tmp_path)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\x77")
    with pytest.raises(LevelFailure, match="in use"):
        open_level(tmp_path)
    level.close()
    assert open_level(tmp_path).stats().num_blocks == 0


@pytest.mark.parametrize("length", [0, 10, 5000, 300_000])
def test_a_file_of_another_length_is_made_anew(tmp_path: Path, length: int) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 3))
    level.close()
    os.truncate(host_path(BLOCK, tmp_path), length)
    assert open_level(tmp_path).stats().num_blocks == 0


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    host_path(BLOCK, tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LevelFailure, match="cannot open"):
        open_level(tmp_path)
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_level(tmp_path).close()
    path = host_path(BLOCK, tmp_path)
    uid = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    path.rename(host_path(BLOCK, tmp_path))
    with pytest.raises(LevelFailure, match="somebody else"):
        open_level(tmp_path)


def test_there_are_as_many_users_as_places(tmp_path: Path) -> None:
    levels = [open_level(tmp_path) for _ in range(64)]
    with pytest.raises(LevelFailure, match="64 engines"):
        open_level(tmp_path)
    levels.pop().close()
    assert open_level(tmp_path).stats().num_blocks == 0


def test_damaged_data_is_a_miss_that_is_counted_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    level = open_level(tmp_path)
    heads = chain("a", 3)
    put(level, heads)
    content = host_path(BLOCK, tmp_path).read_bytes()
    at = content.index(bytes(stored(heads, BLOCK)[1].data)) + 500
    with host_path(BLOCK, tmp_path).open("r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 1]))
    assert fetched(level, heads, BLOCK) == 1
    assert fetched(level, heads, BLOCK) == 1
    assert level.stats().num_corrupt == 1
    (record,) = caplog.records
    assert f"a KV block in {host_path(BLOCK, tmp_path)} is damaged" in record.getMessage()
    assert put(level, heads) == 3
    assert fetched(level, heads, BLOCK) == 3


def test_a_damaged_record_is_a_miss_that_is_counted_once(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    heads = chain("a", 3)
    put(level, heads)
    content = host_path(BLOCK, tmp_path).read_bytes()
    with host_path(BLOCK, tmp_path).open("r+b") as file:
        file.seek(content.index(heads[1].name) + 40)  # its tenant
        file.write(b"\x55\xaa")
    assert fetched(level, heads, BLOCK) == 1
    assert fetched(level, heads, BLOCK) == 1
    assert level.stats().num_corrupt == 1


def test_a_full_shared_memory_makes_the_bound_smaller_and_kills_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = open_level(tmp_path)
    put(level, chain("a", 3))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert put(level, chain("b", 2)) == 2
    assert level.stats().num_blocks == 3
    level.forget([Forget(Scope.FINGERPRINT, FINGERPRINT)])
    assert put(level, chain("c", 4)) == 3  # the slots that have memory
    with pytest.raises(LevelFailure, match="no room"):
        HostLevel(BLOCK + 1, bound(8), directory=tmp_path)
    monkeypatch.undo()
    assert put(level, chain("d", 5)) == 5
    assert level.stats().num_blocks == 8


def test_a_shared_memory_that_was_full_from_the_start_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = open_level(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(LevelFailure, match="is full"):
        put(level, chain("a", 1))


def test_what_was_forgotten_is_told_to_the_others_and_never_comes_back(tmp_path: Path) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    heads = chain("a", 4)
    version = one.log.version()
    put(one, heads)
    forgets = (Forget(Scope.PREFIX, heads[2].name), Forget(Scope.TENANT, word("nobody")))
    assert one.forget(forgets) == 2
    assert fetched(other, heads, BLOCK) == 2
    assert other.log.read(version).forgets == forgets
    assert one.log.read(version).forgets == ()
    with pytest.raises(Outdated):
        put(other, heads, version)
    assert fetched(other, heads, BLOCK) == 2
    assert put(other, heads, other.log.read(version).version) == 4


def test_a_forget_between_the_copy_and_its_publishing_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    heads = chain("a", 1)
    write = one._write

    def write_late(slot: int, data: memoryview) -> int:
        other.forget([Forget(Scope.TENANT, TENANT)])
        return write(slot, data)

    monkeypatch.setattr(one, "_write", write_late)
    with pytest.raises(Outdated):
        put(one, heads)
    assert one.stats().num_blocks == 0


def test_a_log_that_has_lost_what_a_reader_needs_says_so(tmp_path: Path) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    version = one.log.version()
    forgets = [Forget(Scope.BLOCK, word(str(index))) for index in range(4097)]
    one.forget(forgets[:4096])
    assert other.log.read(version).forgets == tuple(forgets[:4096])
    one.forget(forgets[4096:])
    assert not other.log.read(version).is_complete
    assert other.log.read(version + 1).forgets == tuple(forgets[1:])
    assert not other.log.read(0).is_complete
    assert not other.log.read(version + 10_000).is_complete


def test_a_new_segment_begins_behind_all_versions_of_the_old(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    level.forget([Forget(Scope.BLOCK, word("a"))])
    version = level.log.version()
    level.close()
    host_path(BLOCK, tmp_path).unlink()
    assert open_level(tmp_path).log.version() > version


def test_more_forgets_than_the_log_holds_drop_what_they_cover_and_no_more(tmp_path: Path) -> None:
    level, other = open_level(tmp_path), open_level(tmp_path)
    heads, kept = chain("a", 3), chain("b", 3)
    put(level, heads + kept)
    version = other.log.version()
    forgets = [Forget(Scope.BLOCK, word(str(number))) for number in range(10_000)]
    assert level.forget([*forgets, *(Forget(Scope.BLOCK, head.name) for head in heads)]) == 3
    assert fetched(other, kept, BLOCK) == 3
    assert not other.log.read(version).is_complete


def test_how_far_it_was_told_is_known_to_all_and_never_goes_back(tmp_path: Path) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    assert one.told == 0
    one.told = 7 << 40
    other.told = 5
    assert one.told == other.told == 7 << 40
    one.close()
    other.close()
    assert open_level(tmp_path).told == 7 << 40


def test_one_who_writes_the_same_block_at_once_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    heads = chain("a", 2)
    write = one._write

    def write_late(slot: int, data: memoryview) -> int:
        put(other, heads)
        return write(slot, data)

    monkeypatch.setattr(one, "_write", write_late)
    assert put(one, heads) == 2
    assert one.stats().num_blocks == 2
    assert fetched(one, heads, BLOCK) == 2


def test_a_slot_that_is_overwritten_during_a_copy_is_a_miss_and_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_level(tmp_path, 2), open_level(tmp_path, 2)
    heads = chain("a", 2)
    put(one, heads)
    look_up = one._look_up

    def look_up_early(names: object) -> object:
        places = look_up([head.name for head in heads])
        put(other, chain("b", 2))
        return places

    monkeypatch.setattr(one, "_look_up", look_up_early)
    assert fetched(one, heads, BLOCK) == 0
    assert one.stats().num_corrupt == 0


def test_a_stopped_user_costs_the_others_a_failure_and_no_more(tmp_path: Path) -> None:
    one, other = open_level(tmp_path), open_level(tmp_path)
    with one._segment.changing(), pytest.raises(LevelFailure, match="has held the lock"):
        other.contain([word("a")])
    assert other.contain([word("a")]) == 0


def test_uses_are_shared_so_that_what_others_use_is_not_evicted(tmp_path: Path) -> None:
    times = iter(np.arange(1.0, 100.0).tolist())
    one = HostLevel(BLOCK, bound(3), directory=tmp_path, clock=lambda: next(times))
    other = HostLevel(BLOCK, bound(3), directory=tmp_path, clock=lambda: next(times))
    a, b, c, d = (chain(label, 1) for label in "abcd")
    for heads in (a, b, c):
        put(one, heads)
    assert fetched(other, a, BLOCK) == 1
    put(one, d)
    assert [fetched(one, heads, BLOCK) for heads in (a, b, c, d)] == [1, 0, 1, 1]


def test_what_lies_here_for_another_model_is_told_by_its_tokens(tmp_path: Path) -> None:
    level = open_level(tmp_path)
    ours, theirs = chain("a", 3), chain("a", 3, fingerprint=word("other"))
    put(level, theirs)
    assert level.contain([head.name for head in ours]) == 0
    assert level.elsewhere(ours[1].content) == theirs[1]
    assert level.elsewhere(word("never")) is None
