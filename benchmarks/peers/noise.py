"""How much of the machine others used meanwhile: without quiet there is no comparison."""

import os
import resource
import time
from pathlib import Path

__all__ = ["OtherCpu"]


class OtherCpu:
    """From its making on: the CPU time of the machine, less that of this process and of its children that ended."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._others_s = _machine_s() - _own_s()

    def share(self) -> float:
        """The part of all cores' time that others had since then, 0 to 1."""
        elapsed_s = (time.monotonic() - self._started_s) * (os.cpu_count() or 1)
        return max(0.0, (_machine_s() - _own_s() - self._others_s) / elapsed_s)


def _machine_s() -> float:
    """Busy and stolen seconds of all cores since the start of the machine: user, nice, system, irq, softirq, steal."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
