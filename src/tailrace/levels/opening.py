"""From settings to opened levels, nearest first."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.errors import SetupError
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.kvcache.forget import Forget
from tailrace.levels.api import BlockLevel, LevelFailure, TooSmall
from tailrace.levels.breaker import Breaker
from tailrace.levels.config import LevelsConfig
from tailrace.levels.disk import DiskLevel
from tailrace.levels.host import HostLevel
from tailrace.levels.redis import open_redis
from tailrace.levels.segment import host_path
from tailrace.records import Tell, untold

__all__ = ["auto_host_bytes", "open_levels"]

logger = logging.getLogger(__name__)

_MAX_AUTO_BYTES = 1 << 30
_FREE_SHARE = 4  # auto takes at most one in so many bytes that shared memory has free
_MIN_AUTO_BLOCKS = 16


def open_levels(
    config: LevelsConfig, everything: Forget, *, block_bytes: int, engine_bytes: int, tell: Tell = untold
) -> list[BlockLevel]:
    """Nearest first. `everything` covers all blocks of this engine, which has `engine_bytes` of KV memory itself.

    `tell` hears, on any thread, when a level goes down and when it works again.
    Raises SetupError for a level that was asked for and cannot be opened; without one that was not, it goes on.
    """
    eviction = EvictionConfig(ttl_s=config.ttl_s)
    # Opened farthest first: where one fails, the blocks of nearer levels have not yet made way for another size.
    levels: list[BlockLevel] = []
    try:
        if config.redis_url is not None:
            levels.append(Breaker(open_redis(config.redis_url, everything.target, config.ttl_s), everything, tell=tell))
        if config.disk_directory is not None:
            with _blaming("--kv-disk", "--kv-disk-size"):
                disk = DiskLevel(config.disk_directory, block_bytes, config.disk_bytes, eviction)
            levels.append(Breaker(disk, everything, tell=tell))
        if (host := _host(config, eviction, block_bytes, engine_bytes)) is not None:
            levels.append(Breaker(host, everything, tell=tell))
    except SetupError:
        for level in levels:
            level.close()
        raise
    return levels[::-1]


@contextmanager
def _blaming(setting: str, size_setting: str) -> Iterator[None]:
    """Name the setting that asked for a level which cannot be opened."""
    try:
        yield
    except TooSmall as failure:
        raise SetupError(f"{failure} ({size_setting})") from failure
    except LevelFailure as failure:
        raise SetupError(f"{failure} ({setting})") from failure


def _host(config: LevelsConfig, eviction: EvictionConfig, block_bytes: int, engine_bytes: int) -> HostLevel | None:
    directory = config.host_directory
    if config.host_bytes == "auto":
        try:
            max_bytes = auto_host_bytes(block_bytes, engine_bytes, directory)
            return HostLevel(block_bytes, max_bytes, eviction, directory=directory)
        except LevelFailure as failure:
            logger.warning("KV blocks are not kept in shared memory, so they go with this server: %s", failure)
            return None
    if not config.host_bytes:
        return None
    with _blaming("--kv-host-directory" if not directory.is_dir() else "--kv-host", "--kv-host"):
        _check_size(config.host_bytes, directory)
        return HostLevel(block_bytes, config.host_bytes, eviction, directory=directory)


def _check_size(num_bytes: int, directory: Path) -> None:
    """Its table alone would take memory for blocks that can never be there."""
    total_bytes = shutil.disk_usage(directory).total if directory.is_dir() else num_bytes
    if num_bytes > total_bytes:
        raise LevelFailure(f"{num_bytes:,} bytes are more than the {total_bytes:,} that {directory} has in all")


def auto_host_bytes(block_bytes: int, engine_bytes: int, directory: Path) -> int:
    """As large as what an earlier server has left here, so that it is kept; else what there is room for.

    Raises LevelFailure when that is too little.
    """
    there = host_path(block_bytes, directory)
    if there.is_file() and there.stat().st_uid == os.geteuid() and 0 < there.stat().st_size <= _MAX_AUTO_BYTES:
        return there.stat().st_size
    free_bytes = shutil.disk_usage(directory).free if directory.is_dir() else 0
    max_bytes = min(engine_bytes, free_bytes // _FREE_SHARE, _MAX_AUTO_BYTES)
    if max_bytes < _MIN_AUTO_BLOCKS * block_bytes:
        raise LevelFailure(f"{directory} has {free_bytes:,} bytes free (--kv-host 0 if that is meant to be)")
    return max_bytes
