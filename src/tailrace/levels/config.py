"""Which levels there are below an engine, and how large."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

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
