"""Instructions of a call by the processor's own counter: any instruction set, but Python's few thousand are in it.

Virtual machines often have no such counter. Nothing but Linux' perf_event_open is needed, not the `perf` tool.
"""

import fcntl
import os
from collections.abc import Callable

from tailrace.telemetry.perf_events import count_of, open_event

__all__ = ["INSTRUCTIONS", "PAGE_FAULTS", "HardwareCounter", "why_no_counter"]

INSTRUCTIONS = (0, 1)  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS
PAGE_FAULTS = (1, 2)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_THIS_THREAD = 0


class HardwareCounter:
    """Counts what the calling thread does in user mode. Raises OSError when there is no such counter."""

    def __init__(self, event: tuple[int, int] = INSTRUCTIONS) -> None:
        kind, config = event
        flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
        self._file = open_event(kind, config, thread=_THIS_THREAD, flags=flags)

    def count(self, call: Callable[[], object]) -> int:
        fcntl.ioctl(self._file, _RESET, 0)
        fcntl.ioctl(self._file, _ENABLE, 0)
        call()
        fcntl.ioctl(self._file, _DISABLE, 0)
        return round(count_of(self._file))

    def close(self) -> None:
        os.close(self._file)


def why_no_counter(event: tuple[int, int] = INSTRUCTIONS) -> str | None:
    """Why such events cannot be counted here, or None when they can."""
    try:
        HardwareCounter(event).close()
    except OSError as error:
        return (
            f"the processor's counters cannot be had here ({error.strerror or error}): virtual machines "
            "often hide them, and kernel.perf_event_paranoid must be 2 or less"
        )
    return None
