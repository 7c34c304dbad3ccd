import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.weights import packed_cache
from tailrace.weights.packed_cache import PackedCache

MIB = 1 << 20


def packed(seed: int, num_bytes: int = 5 * MIB + 123) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, num_bytes, np.uint8)


def read(cache: PackedCache, key: str, num_bytes: int) -> bytes | None:
    file = cache.find(key, num_bytes)
    if file is None:
        return None
    try:
        return os.pread(file, num_bytes, 0)
    finally:
        os.close(file)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def cache(tmp_path: Path) -> PackedCache:
    return PackedCache(tmp_path / "packed", 12 * MIB)


def test_what_was_kept_is_found_under_its_key_alone(cache: PackedCache) -> None:
    assert read(cache, "a", 10) is None
    cache.save("a", packed(1))
    assert read(cache, "a", 5 * MIB + 123) == packed(1).tobytes()
    assert read(cache, "b", 5 * MIB + 123) is None
    assert names(cache.directory) == ["a.weights"]


@pytest.mark.parametrize("damage", ["short", "long", "torn", "no trailer", "other size"])
def test_a_damaged_file_is_removed(cache: PackedCache, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    size = 5 * MIB + 123
    cache.save("a", packed(1))
    path = cache.directory / "a.weights"
    whole = path.read_bytes()
    zeros = bytes(MIB)
    damaged = {
        "short": whole[:-1],
        "long": whole + b"x",
        "torn": whole[: 4 * MIB] + zeros + whole[5 * MIB :],
        "no trailer": whole[:size] + bytes(32),
        "other size": whole,
    }
    path.write_bytes(damaged[damage])
    assert read(cache, "a", size + (damage == "other size")) is None
    assert names(cache.directory) == []
    assert "a.weights is damaged" in caplog.text


def test_the_least_recently_used_go_when_there_is_no_room(cache: PackedCache) -> None:
    for seed, key in enumerate(("a", "b")):
        cache.save(key, packed(seed))
        os.utime(cache.directory / f"{key}.weights", (seed, seed))
    assert read(cache, "a", 5 * MIB + 123) is not None  # used now
    cache.save("c", packed(3))
    assert names(cache.directory) == ["a.weights", "c.weights"]


def test_what_is_too_large_is_not_kept_and_the_others_stay(
    cache: PackedCache, caplog: pytest.LogCaptureFixture
) -> None:
    cache.save("a", packed(1))
    cache.save("b", packed(2, 13 * MIB))
    assert names(cache.directory) == ["a.weights"]
    assert "they take 13,631,488 bytes, all together may take 12,582,912" in caplog.text


def test_the_disk_is_not_filled(
    cache: PackedCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(packed_cache, "_SPARE_BYTES", 1 << 60)
    cache.save("a", packed(1))
    assert names(cache.directory) == []
    assert "bytes free" in caplog.text


def test_a_place_that_cannot_be_written_is_said_and_nothing_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    PackedCache(tmp_path / "file", MIB).save("a", packed(1, 10))
    assert "cannot be kept" in caplog.text


def test_what_a_killed_process_has_left_goes_and_what_another_is_writing_stays(cache: PackedCache) -> None:
    cache.directory.mkdir()
    (cache.directory / "a.1.partial").write_bytes(b"left")
    with (cache.directory / "b.2.partial").open("wb") as being_written:
        fcntl.flock(being_written, fcntl.LOCK_EX)
        cache.save("c", packed(1))
    assert names(cache.directory) == ["b.2.partial", "c.weights"]
