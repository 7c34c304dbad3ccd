"""What really came from memory and went to it, as its controllers count: of the whole machine, whoever caused it.

Linux shows the controllers of Intel's servers as devices; to read them takes CAP_PERFMON, or a
kernel.perf_event_paranoid of 0 or less.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tailrace.errors import SetupError
from tailrace.telemetry.perf_events import count_of, open_event, why_not

__all__ = ["MemoryControllers"]

_DEVICES = Path("/sys/bus/event_source/devices")
_CONTROLLERS = "uncore_imc_[0-9]*"
_EVENTS = ("cas_count_read", "cas_count_write")
_UNITS = {"MiB": 1 << 20, "Bytes": 1}


class MemoryControllers:
    """Counts from now on, until it is closed. Raises SetupError, in one line, when there is nothing to be read."""

    def __init__(self, devices: Path = _DEVICES) -> None:
        self._stack = ExitStack()
        self._files: list[tuple[int, float]] = []  # each with what one count stands for
        try:
            for device in sorted(devices.glob(_CONTROLLERS)):
                self._files += self._opened(device)
        except (OSError, ValueError) as error:
            self.close()
            reason = why_not(error) if isinstance(error, OSError) and error.filename is None else str(error)
            raise SetupError(f"the memory controllers cannot be read: {reason}") from error
        if not self._files:
            raise SetupError("the memory controllers cannot be read: this machine shows none")

    def _opened(self, device: Path) -> Iterator[tuple[int, float]]:
        kind = int(_text(device / "type"))
        for cpu in _text(device / "cpumask").split(","):
            for event in _EVENTS:
                file = open_event(kind, _config(device, event), cpu=int(cpu))
                self._stack.callback(os.close, file)
                yield file, _bytes_of_one(device, event)

    def num_bytes(self) -> float:
        """Read and written since it was opened."""
        return sum(count_of(file) * each for file, each in self._files)

    def close(self) -> None:
        self._stack.close()


def _config(device: Path, event: str) -> int:
    """The number that stands for `event=0x04,umask=0x03`, each field where its format says: `config:8-15`."""
    config = 0
    for assignment in _text(device / "events" / event).split(","):
        name, _, value = assignment.partition("=")
        first_bit = _text(device / "format" / name).removeprefix("config:").partition("-")[0]
        config |= int(value or "1", 0) << int(first_bit)
    return config


def _bytes_of_one(device: Path, event: str) -> float:
    unit = _text(device / "events" / f"{event}.unit")
    return float(_text(device / "events" / f"{event}.scale")) * _UNITS[unit] if unit in _UNITS else 64.0


def _text(path: Path) -> str:
    return path.read_text("ascii").strip()
