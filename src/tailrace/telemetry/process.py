"""Memory and processor time of this process, read when somebody looks."""

import os
import resource
import time
from pathlib import Path

from tailrace.telemetry import catalog
from tailrace.telemetry.series import LabelledNumber, Series

__all__ = ["ProcessMetrics"]

_PAGE_BYTES = resource.getpagesize()


class ProcessMetrics:
    """`name` tells the processes of one server apart. Shows nothing before `refresh`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._resident = LabelledNumber(catalog.PROCESS_RESIDENT_BYTES)
        self._cpu = LabelledNumber(catalog.PROCESS_CPU_SECONDS)
        self.series: tuple[Series, ...] = (self._resident, self._cpu)

    def refresh(self) -> None:
        """Bring the series up to date."""
        self._resident.set(_resident_bytes(), self._name)
        self._cpu.set(time.process_time(), self._name)


def _resident_bytes() -> int:
    """As the system counts it; 0 where it does not say."""
    try:
        return int(Path(f"/proc/{os.getpid()}/statm").read_text("ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
