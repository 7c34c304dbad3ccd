"""The server that is put to the test: its processes, what they hold, and what is done to them."""

import os
import signal
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Held", "Target"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Held:
    """What a process has of the system's."""

    title: str
    num_files: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Target:
    """A running server by the pid of its supervisor."""

    pid: int
    port: int

    def processes(self) -> dict[str, int]:
        """The pids of its processes by what they call themselves, without the supervisor."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        titled = {_title(int(child)): int(child) for child in children}
        return {
            title.removeprefix("tailrace: "): pid for title, pid in titled.items() if title.startswith("tailrace: ")
        }

    def send(self, title: str, number: signal.Signals) -> bool:
        """Whether there was such a process."""
        pid = self.processes().get(title)
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return True

    def held(self) -> list[Held]:
        found = [_held("serve", self.pid), *(_held(title, pid) for title, pid in self.processes().items())]
        return [each for each in found if each is not None]

    def metric(self, name: str) -> float:
        """The sum of a metric's series; 0 when it is not shown."""
        lines = self._get("/metrics").decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{")))

    def wait_until_idle(self, limit_s: float) -> bool:
        """Whether it is ready and computes nothing, at the latest by then."""
        ends_s = time.monotonic() + limit_s
        while time.monotonic() < ends_s:
            with suppress(OSError):
                self._get("/ready")
                names = ("tailrace_requests_running", "tailrace_requests_waiting", "tailrace_kv_blocks_used")
                if not any(map(self.metric, names)):
                    return True
            time.sleep(0.05)
        return False

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as reply:
            body: bytes = reply.read()
            return body


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def _held(title: str, pid: int) -> Held | None:
    try:
        num_files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resident_bytes = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return None
    return Held(title, num_files, resident_bytes)
