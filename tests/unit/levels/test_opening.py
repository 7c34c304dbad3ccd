"""From settings to levels: what was asked for must be there, what was not may be missing."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import SetupError
from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import LevelFailure
from tailrace.levels.breaker import Breaker
from tailrace.levels.config import LevelsConfig
from tailrace.levels.health import Part
from tailrace.levels.host import HostLevel
from tailrace.levels.opening import auto_host_bytes, open_levels
from tailrace.levels.segment import host_path
from tailrace.records import EventKind
from tailrace.types import Level

BLOCK_BYTES = 1 << 12
ENGINE_BYTES = 64 << 20
EVERYTHING = Forget(Scope.FINGERPRINT, bytes(16))


def opened(config: LevelsConfig, directory: Path) -> list[Level]:
    config = replace(config, host_directory=directory)
    levels = open_levels(config, EVERYTHING, block_bytes=BLOCK_BYTES, engine_bytes=ENGINE_BYTES)
    for level in levels:
        assert isinstance(level, Breaker)  # which says how it is
        level.close()
    return [level.level for level in levels]


def test_there_are_no_levels_unless_they_are_asked_for(tmp_path: Path) -> None:
    assert opened(LevelsConfig(), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_levels_come_nearest_first(tmp_path: Path) -> None:
    config = LevelsConfig(8 << 20, tmp_path / "disk", 8 << 20, "redis://localhost:1/0")
    assert opened(config, tmp_path) == [Level.HOST, Level.DISK, Level.REDIS]


def test_an_operator_hears_of_each_level_that_goes_down(tmp_path: Path) -> None:
    config = LevelsConfig(8 << 20, tmp_path / "disk", 8 << 20, "redis://localhost:1/0", host_directory=tmp_path)
    told: list[tuple[EventKind, str]] = []
    levels = open_levels(
        config,
        EVERYTHING,
        block_bytes=BLOCK_BYTES,
        engine_bytes=ENGINE_BYTES,
        tell=lambda kind, message: told.append((kind, message)),
    )
    for level in levels:
        assert isinstance(level, Breaker)
        level.health.down(Part.READING, "gone")
        level.close()
    assert told == [
        (EventKind.LEVEL_DOWN, f"the {name} level is down, requests go on without it: gone")
        for name in ("host", "disk", "redis")
    ]


def test_auto_takes_no_more_than_the_engine_itself(tmp_path: Path) -> None:
    assert auto_host_bytes(BLOCK_BYTES, ENGINE_BYTES, tmp_path) == ENGINE_BYTES
    assert auto_host_bytes(BLOCK_BYTES, 1 << 50, tmp_path) <= 1 << 30


def test_auto_keeps_what_an_earlier_server_has_left(tmp_path: Path) -> None:
    HostLevel(BLOCK_BYTES, 8 << 20, directory=tmp_path).close()
    size = host_path(BLOCK_BYTES, tmp_path).stat().st_size
    assert auto_host_bytes(BLOCK_BYTES, ENGINE_BYTES, tmp_path) == size
    assert opened(LevelsConfig("auto"), tmp_path) == [Level.HOST]
    assert host_path(BLOCK_BYTES, tmp_path).stat().st_size == size


def test_without_room_auto_goes_on_without_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LevelFailure, match="0 bytes free"):
        auto_host_bytes(BLOCK_BYTES, ENGINE_BYTES, tmp_path / "missing")
    assert opened(LevelsConfig("auto"), tmp_path / "missing") == []
    (record,) = caplog.records
    assert "not kept in shared memory" in record.getMessage()


@pytest.mark.parametrize(
    "config",
    [
        LevelsConfig(host_bytes=100),
        LevelsConfig(disk_directory=Path("/dev/null/disk")),
        LevelsConfig(host_bytes=8 << 20, disk_directory=Path("/dev/null/disk")),
        LevelsConfig(redis_url="http://localhost"),
    ],
)
def test_a_level_that_was_asked_for_must_be_there(config: LevelsConfig, tmp_path: Path) -> None:
    with pytest.raises(SetupError):
        opened(config, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LevelsConfig(host_bytes=100), "too few.*[(]--kv-host[)]$"),
        (LevelsConfig(disk_directory=Path("disk"), disk_bytes=100), "too few.*[(]--kv-disk-size[)]$"),
        (LevelsConfig(disk_directory=Path("file")), "file is not a directory [(]--kv-disk[)]$"),
        (
            LevelsConfig(host_bytes=1 << 60),
            r"1,152,921,504,606,846,976 bytes are more than the [\d,]+ .*[(]--kv-host[)]$",
        ),
    ],
)
def test_an_error_names_the_setting_to_change(
    config: LevelsConfig, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(SetupError, match=message):
        opened(config, tmp_path)
    assert list(tmp_path.glob("*.kv")) == []


@pytest.mark.parametrize("other", [{"disk_directory": Path("/dev/null/disk")}, {"redis_url": "http://localhost"}])
def test_a_level_that_fails_leaves_shared_memory_at_its_size(other: dict[str, Any], tmp_path: Path) -> None:
    HostLevel(BLOCK_BYTES, 8 << 20, directory=tmp_path).close()
    before = host_path(BLOCK_BYTES, tmp_path).stat()
    with pytest.raises(SetupError):
        opened(LevelsConfig(host_bytes=4 << 20, **other), tmp_path)
    assert os.path.samestat(host_path(BLOCK_BYTES, tmp_path).stat(), before)


def test_shared_memory_that_is_not_there_is_blamed_on_its_directory(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"[(]--kv-host-directory[)]$"):
        opened(LevelsConfig(host_bytes=8 << 20), tmp_path / "missing")


def test_a_redis_that_is_down_is_no_reason_not_to_start(tmp_path: Path) -> None:
    assert opened(LevelsConfig(redis_url="redis://localhost:1/0"), tmp_path) == [Level.REDIS]
