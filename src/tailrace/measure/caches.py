"""The caches of the processor, as Linux tells of them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cache", "data_caches"]

_SYSTEM = Path("/sys/devices/system/cpu")
_USUAL = ((1, 32 << 10, False), (2, 1 << 20, False), (3, 16 << 20, True))  # where nobody tells


@dataclass(frozen=True, slots=True)
class Cache:
    """One level. `is_shared`: there is one for several processors, not one for each."""

    level: int
    num_bytes: int
    is_shared: bool


def data_caches(system: Path = _SYSTEM) -> list[Cache]:
    """Those that data passes through, nearest first; what is usual where the system does not say."""
    cpu = min(os.sched_getaffinity(0))
    found = sorted(_listed(system / f"cpu{cpu}" / "cache"), key=lambda cache: cache.level)
    return found or [Cache(*usual) for usual in _USUAL]


def _listed(directory: Path) -> Iterator[Cache]:
    for index in directory.glob("index*"):
        try:
            kind = (index / "type").read_text("ascii").strip()
            level = int((index / "level").read_text("ascii"))
            num_bytes = _bytes((index / "size").read_text("ascii").strip())
            cpus = (index / "shared_cpu_list").read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and num_bytes > 0:
            yield Cache(level, num_bytes, is_shared=level > 2 and not cpus.isdecimal())


def _bytes(size: str) -> int:
    """Of `48K`, `300M` or plain digits."""
    power = {"K": 10, "M": 20, "G": 30}.get(size[-1:], 0)
    return int(size[:-1] if power else size) << power
