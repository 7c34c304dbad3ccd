"""Which levels there are below an engine, and how large."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tailrace.types import Level

__all__ = ["DISK_BYTES", "HOST_DIRECTORY", "LevelsConfig"]

HOST_DIRECTORY = Path("/dev/shm")
DISK_BYTES = 8 << 30


@dataclass(frozen=True, slots=True)
class LevelsConfig:
    """None, unless asked for. `host_bytes` auto: what the machine has room for; 0: no such level.

    Engines that name the same `host_directory`, of a file system in memory, share what lies there.
    """

    host_bytes: int | Literal["auto"] = 0
    disk_directory: Path | None = None
    disk_bytes: int = DISK_BYTES
    redis_url: str | None = field(default=None, repr=False)  # may hold a password
    ttl_s: float = 86_400.0  # without use
    host_directory: Path = HOST_DIRECTORY

    @property
    def levels(self) -> tuple[Level, ...]:
        """Those that are asked for, nearest first."""
        is_wanted = {
            Level.HOST: bool(self.host_bytes),
            Level.DISK: self.disk_directory is not None,
            Level.REDIS: self.redis_url is not None,
        }
        return tuple(level for level, wanted in is_wanted.items() if wanted)
