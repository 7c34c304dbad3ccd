"""Ceilings that were measured before, kept in a directory: a file for each machine and version."""

import hashlib
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from tailrace.errors import SetupError
from tailrace.telemetry.roofline import Machine, Roofline
from tailrace.version import __version__

__all__ = ["KeptRoofline", "this_machine"]

_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptRoofline:
    """What is known of one machine."""

    directory: Path
    machine: Machine

    def find(self) -> Roofline | None:
        """What was measured with this version; None when nothing was, or the file is damaged or somebody else's."""
        try:
            with self.path.open("rb") as file:
                found = _decode(file.read(_MAX_FILE_BYTES))
        except (OSError, msgspec.MsgspecError):
            return None
        is_ours = found.machine == self.machine and found.version == __version__
        return found if is_ours and _is_sound(found) else None

    def keep(self, roofline: Roofline) -> None:
        """Raises SetupError when it cannot be written."""
        partial = self.path.with_suffix(f".{os.getpid()}")
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_bytes(msgspec.json.encode(roofline))
            partial.replace(self.path)
        except OSError as error:
            raise SetupError(
                f"the roofline cannot be kept in {self.directory}: {error.strerror or error}; set TAILRACE_CACHE_DIR"
            ) from error

    @property
    def path(self) -> Path:
        key = hashlib.sha256(msgspec.json.encode((self.machine, __version__))).hexdigest()
        return self.directory / f"{key[:32]}.json"


_decode = msgspec.json.Decoder(Roofline).decode


def _is_sound(roofline: Roofline) -> bool:
    """Whether one can divide by all that it says."""
    return bool(roofline.threads) and all(
        each.reads
        and all(read.num_bytes > 0 and read.bytes_per_s > 0 for read in each.reads)
        and all(rate > 0 for rate in each.ops_per_s.values())
        for each in roofline.threads
    )


def this_machine(instruction_set: str) -> Machine:
    """The machine that this process runs on."""
    return Machine(_cpu_name(), instruction_set, len(os.sched_getaffinity(0)))


@cache  # the console asks every second, and of many processors the file is long
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part"))]
    return named[0] if named else platform.processor() or platform.machine()
