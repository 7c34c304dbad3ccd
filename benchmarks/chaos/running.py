"""Starts the server that is put to the test, and looks at what it leaves."""

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import socket

from benchmarks.chaos.server import Target

__all__ = ["chaos_server"]

_OPTIONS = ("--api-workers", "2", "--max-restarts", "1000", "--max-model-tokens", "1024", "--kv-memory", "128MiB")
_START_S = 60.0


@contextmanager
def chaos_server(*options: str) -> Iterator[Target]:
    """Ready to answer. Ends it as an operator would, and raises when it does not end well."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "tailrace.cli",
        "serve",
        "--port",
        str(port),
        "--kv-host",
        "0",
        *_OPTIONS,
        *options,
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_ready(process, port)
            yield Target(process.pid, port)
        finally:
            process.terminate()
            code = process.wait(timeout=60)
    if code:
        raise RuntimeError(f"the server ended with {code}")


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    ends_s = time.monotonic() + _START_S
    while time.monotonic() < ends_s and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            return
        time.sleep(0.05)
    raise RuntimeError("the server did not start")
