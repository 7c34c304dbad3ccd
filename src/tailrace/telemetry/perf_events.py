"""What the processor counts of a process by itself: instructions, cycles, and lines that its last cache did not have.

Linux alone has it, by the system call perf_event_open; virtual machines often have no counters.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tailrace.errors import SetupError

__all__ = ["LINE_BYTES", "ProcessCounters", "count_of", "open_event", "why_not"]

LINE_BYTES = 64
"""What comes from memory when a cache lacks it."""

_HARDWARE = 0  # PERF_TYPE_HARDWARE
_ANY = -1  # processor, or thread
_EVENTS = {"cycles": 0, "instructions": 1, "cache_misses": 3}  # PERF_COUNT_HW_*
_SYSCALL = {"x86_64": 298, "aarch64": 241}
_EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 5, 1 << 6
_TIMES = 1 << 0 | 1 << 1  # beside a count, how long it was wanted and how long it ran: there are few counters
_ATTRIBUTES = struct.Struct("IIQQQQQIIQ")  # the first version of perf_event_attr
_READ = struct.Struct("QQQ")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class ProcessCounters:
    """Counts what all threads that a process has by now do in user mode, until it is closed.

    Raises SetupError, in one line, when that cannot be.
    """

    def __init__(self, pid: int) -> None:
        self._stack = ExitStack()
        self._files: dict[str, list[int]] = {name: [] for name in _EVENTS}
        try:
            for thread in _threads(pid):
                for name, config in _EVENTS.items():
                    file = open_event(_HARDWARE, config, thread=thread, flags=_EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR)
                    self._stack.callback(os.close, file)
                    self._files[name].append(file)
        except OSError as error:
            self.close()
            raise SetupError(f"the processor's counters are not to be had: {why_not(error)}") from error

    def counts(self) -> dict[str, float]:
        """Of each event since they were opened, all threads together."""
        return {name: sum(map(count_of, files)) for name, files in self._files.items()}

    def close(self) -> None:
        self._stack.close()


def _threads(pid: int) -> Iterator[int]:
    for entry in Path(f"/proc/{pid}/task").iterdir():
        yield int(entry.name)


def open_event(kind: int, config: int, *, thread: int = _ANY, cpu: int = _ANY, flags: int = 0) -> int:
    """A file that counts from now on, of one thread or of one processor. Raises OSError."""
    number = _SYSCALL.get(platform.machine()) if platform.system() == "Linux" else None
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, _TIMES, flags, 0, 0, 0)
    no_group, close_on_exec = -1, 1 << 3
    file: int = ctypes.CDLL(None, use_errno=True).syscall(number, attributes, thread, cpu, no_group, close_on_exec)
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file


def count_of(file: int) -> float:
    """What was counted, as if it had been counted for all of the time."""
    value, enabled, running = _READ.unpack(os.read(file, _READ.size))
    return value * enabled / running if running else 0.0


def why_not(error: OSError) -> str:
    """What an error of `open_event` means, in plain words."""
    if error.filename is not None:
        return "the engine's process is not to be seen from here"
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return (
                f"kernel.perf_event_paranoid is {_paranoid()} (with 2 or less, users may count their own processes), "
                "or the engine belongs to somebody else"
            )
        case errno.ENOENT | errno.ENODEV | errno.EOPNOTSUPP | errno.EINVAL:
            return "this machine shows none, as most virtual machines do"
        case errno.ESRCH:
            return "the engine ended meanwhile"
        case errno.ENOSYS:
            return f"nobody has them on {platform.system()} {platform.machine()}"
        case _:
            return error.strerror or str(error)


def _paranoid() -> str:
    try:
        return _PARANOID.read_text("ascii").strip()
    except OSError:
        return "unknown"
