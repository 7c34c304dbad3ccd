"""A server process for a benchmark: started as a user would, stopped at the end."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["measure_start_s", "started_server"]

_TIMEOUT_S = 120.0


@contextmanager
def started_server(*arguments: str) -> Iterator[str]:
    """`tailrace serve` on a free port; its URL once it is ready."""
    with _process(*arguments) as port:
        _first_token(port)
        yield f"http://127.0.0.1:{port}"


def measure_start_s() -> float:
    """Seconds from the start of the process to the first streamed token."""
    started_s = time.monotonic()
    with _process() as port:
        _first_token(port)
        return time.monotonic() - started_s


@contextmanager
def _process(*arguments: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "tailrace.cli", "serve", "--port", str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()


def _first_token(port: int) -> None:
    """Ask until a token comes."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    body = json.dumps({"prompt": "Once", "max_tokens": 1, "stream": True})
    while time.monotonic() < deadline_s:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            reply = connection.getresponse()
            if reply.status == 200 and reply.readline().startswith(b"data:"):
                return
        except OSError:
            pass  # not listening yet
        finally:
            connection.close()
        time.sleep(0.005)
    raise TimeoutError(f"no token within {_TIMEOUT_S} s")
