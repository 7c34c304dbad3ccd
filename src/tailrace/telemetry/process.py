"""Memory, processor time and open files of this process, read when somebody looks."""

import os
import resource
import time
from pathlib import Path

from tailrace.telemetry.catalogs import process as catalog
from tailrace.telemetry.series import LabelledNumber, Samples, Series

__all__ = ["ProcessMetrics"]

_PAGE_BYTES = resource.getpagesize()


class ProcessMetrics:
    """`name` tells the processes of one server apart. Shows nothing before `refresh`.

    Made just before its process is forked, if that is not this one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._cpu_before_s = 0.0
        self._started_s = time.time()
        self._resident = LabelledNumber(catalog.PROCESS_RESIDENT_BYTES)
        self.cpu = LabelledNumber(catalog.PROCESS_CPU_SECONDS)
        self._open_files = LabelledNumber(catalog.PROCESS_OPEN_FILES)
        self._max_files = LabelledNumber(catalog.PROCESS_MAX_FILES)
        self._started = LabelledNumber(catalog.PROCESS_START_SECONDS)
        self._id = LabelledNumber(catalog.PROCESS_ID)
        self.series: tuple[Series, ...] = (
            self._resident,
            self.cpu,
            self._open_files,
            self._max_files,
            self._started,
            self._id,
        )

    def go_on_from(self, cpu: Samples) -> None:
        """Count on from the processor time that those of its name had taken before, so that no sum goes back."""
        self._cpu_before_s += sum(values[0] for labels, values in cpu if labels == (self._name,))

    def refresh(self) -> None:
        """Bring the series up to date."""
        self._resident.set(_resident_bytes(), self._name)
        self.cpu.set(self._cpu_before_s + time.process_time(), self._name)
        self._open_files.set(_num_open_files(), self._name)
        self._max_files.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0], self._name)
        self._started.set(self._started_s, self._name)
        self._id.set(os.getpid(), self._name)


def _resident_bytes() -> int:
    """As the system counts it; 0 where it does not say."""
    try:
        return int(Path(f"/proc/{os.getpid()}/statm").read_text("ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _num_open_files() -> int:
    """As the system counts them; 0 where it does not say."""
    try:
        return sum(1 for _ in os.scandir(f"/proc/{os.getpid()}/fd")) - 1  # the one that is read
    except OSError:
        return 0
