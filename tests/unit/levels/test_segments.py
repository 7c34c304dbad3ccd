from pathlib import Path

import pytest

from tailrace.kvcache.eviction import EvictionConfig
from tailrace.levels.api import LevelFailure
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tailrace.levels.segment import host_path
from tailrace.levels.segments import list_segments, remove_segment
from tests.support.blocks import chain, stored

LAYOUT = Layout(1000, 8)


def test_segments_say_what_they_hold_and_who_uses_them(tmp_path: Path) -> None:
    levels = [HostLevel(1000, LAYOUT.file_bytes, directory=tmp_path) for _ in range(2)]
    levels[0].put(stored(chain("a", 3), 1000), levels[0].log.version())
    host_path(2000, tmp_path).write_bytes(b"something else")
    (tmp_path / "tailrace-other").touch()
    one, other = list_segments(tmp_path)
    assert (one.path, one.layout, one.num_blocks, one.num_users) == (host_path(1000, tmp_path), LAYOUT, 3, 2)
    assert 0 < one.memory_bytes <= LAYOUT.file_bytes
    assert (other.path, other.layout, other.num_users) == (host_path(2000, tmp_path), None, 0)
    levels[0].close()
    assert list_segments(tmp_path)[0].num_users == 1


def test_a_segment_is_removed_once_nobody_uses_it(tmp_path: Path) -> None:
    level = HostLevel(1000, LAYOUT.file_bytes, directory=tmp_path)
    path = host_path(1000, tmp_path)
    with pytest.raises(LevelFailure, match="in use"):
        remove_segment(path)
    assert path.exists()
    level.close()
    remove_segment(path)
    assert not path.exists()
    assert list_segments(tmp_path) == []


def test_what_others_left_behind_goes_once_its_time_to_live_is_over(tmp_path: Path) -> None:
    used = HostLevel(1000, LAYOUT.file_bytes, directory=tmp_path)
    for block_bytes in (2000, 3000):
        HostLevel(block_bytes, 1 << 20, directory=tmp_path).close()
    host_path(5000, tmp_path).write_bytes(b"of another version")
    HostLevel(3000, 1 << 20, EvictionConfig(ttl_s=3600.0), directory=tmp_path).close()
    assert len(list_segments(tmp_path)) == 4
    HostLevel(3000, 1 << 20, EvictionConfig(ttl_s=0.0), directory=tmp_path).close()
    assert [report.path for report in list_segments(tmp_path)] == [host_path(1000, tmp_path), host_path(3000, tmp_path)]
    used.close()
