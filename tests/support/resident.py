"""How much of a mapped file is in memory, by the kernel's own books."""

from pathlib import Path

__all__ = ["resident_kib"]


def resident_kib(path: Path) -> int:
    """KiB of `path` that this process has mapped and in memory."""
    lines = iter(Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines())
    total = 0
    for line in lines:
        if line.endswith(str(path)):
            total += next(int(field.split()[1]) for field in lines if field.startswith("Rss:"))
    return total
