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

    def output(self) -> str:
        """What the ended process wrote."""
        return self.process.communicate(timeout=10)[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(*arguments: str) -> Iterator[ServerProcess]:
    """`tailrace serve ARGUMENTS` on a free port, ready to answer."""
    port = free_port()
    command = [sys.executable, "-m", "tailrace.cli", "serve", "--port", str(port), *arguments]
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
