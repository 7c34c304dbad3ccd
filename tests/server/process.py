"""A real `tailrace serve` process for tests: started on a free port, awaited until ready, stopped at the end."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ServerProcess", "free_port", "serving"]

START_TIMEOUT_S = 60.0


@dataclass
class ServerProcess:
    process: subprocess.Popen[str]
    url: str

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET, whatever the status."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        _, text = self.get("/metrics")
        lines = [line for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
        assert lines, f"no metric {name} in:\n{text}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def wait_for_metric(self, name: str, least: float) -> None:
        """Until the metric has reached a value."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while (value := self.metric(name)) < least:
            assert time.monotonic() < deadline_s, f"{name} is {value} and did not reach {least}"
            time.sleep(0.02)

    def wait_for_less(self, name: str, value: float) -> None:
        """Until the metric has fallen below a value."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while (now := self.metric(name)) >= value:
            assert time.monotonic() < deadline_s, f"{name} is {now} and did not fall below {value}"
            time.sleep(0.02)

    def wait_until(self, path: str, status: int) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}: {self.output()}")
            try:
                if self.get(path)[0] == status:
                    return
            except OSError:
                pass  # not listening yet
            time.sleep(0.02)
        raise AssertionError(f"{path} did not answer {status} within {START_TIMEOUT_S} s")

    def pid_of(self, title: str) -> int:
        """The process of this server that calls itself so, such as `engine` or `api 0`."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
                if _title(pid) == f"tailrace: {title}":
                    return int(pid)
            time.sleep(0.01)
        raise AssertionError(f"there is no process {title}")

    def kill(self, title: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Send one of its processes a signal, at once; the pid it had."""
        pid = self.pid_of(title)
        os.kill(pid, number)
        return pid

    def send_to_all(self, number: signal.Signals) -> None:
        """Send all of its processes a signal."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in (self.process.pid, *map(int, children)):
            os.kill(pid, number)

    def wait_for_another(self, title: str, pid: int) -> int:
        """Until somebody else has taken the place of a process that is dead."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while (other := self.pid_of(title)) == pid:
            assert time.monotonic() < deadline_s, f"{title} was not started again"
            time.sleep(0.01)
        return other

    def output(self) -> str:
        """What the ended process wrote."""
        return self.process.communicate(timeout=10)[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)


def _title(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(*arguments: str, program: str = "tailrace.cli") -> Iterator[ServerProcess]:
    """`tailrace serve ARGUMENTS` on a free port, ready to answer.

    It keeps nothing in shared memory, where tests would find what others left, unless `--kv-host` says so.
    """
    port = free_port()
    isolated = () if "--kv-host" in arguments else ("--kv-host", "0")
    command = [sys.executable, "-m", program, "serve", "--port", str(port), *isolated, *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    ) as process:
        server = ServerProcess(process, f"http://127.0.0.1:{port}")
        try:
            server.wait_until("/ready", 200)
            yield server
        finally:
            server.stop()
