"""What the system tells of its caches, and what is taken for granted where it does not."""

import os
from pathlib import Path

from tailrace.measure.caches import Cache, data_caches


def listed(system: Path, index: int, *texts: str) -> None:
    """A cache of this type, level, size and processors."""
    directory = system / f"cpu{min(os.sched_getaffinity(0))}" / "cache" / f"index{index}"
    directory.mkdir(parents=True)
    for name, text in zip(("type", "level", "size", "shared_cpu_list"), texts, strict=True):
        (directory / name).write_text(f"{text}\n")


def test_data_caches_are_read_nearest_first(tmp_path: Path) -> None:
    listed(tmp_path, 0, "Unified", "3", "300M", "0-7")
    listed(tmp_path, 1, "Data", "1", "48K", "0")
    listed(tmp_path, 2, "Instruction", "1", "32K", "0")
    listed(tmp_path, 3, "Unified", "2", "2048K", "0,8")

    assert data_caches(tmp_path) == [
        Cache(1, 48 << 10, is_shared=False),
        Cache(2, 2 << 20, is_shared=False),
        Cache(3, 300 << 20, is_shared=True),
    ]


def test_a_damaged_entry_is_left_out(tmp_path: Path) -> None:
    listed(tmp_path, 0, "Data", "1", "unknown", "0")
    listed(tmp_path, 1, "Unified", "2", "0K", "0")
    listed(tmp_path, 2, "Unified", "2", "1M", "0")

    assert data_caches(tmp_path) == [Cache(2, 1 << 20, is_shared=False)]


def test_without_a_word_from_the_system_usual_sizes_are_taken(tmp_path: Path) -> None:
    assert [cache.level for cache in data_caches(tmp_path)] == [1, 2, 3]
