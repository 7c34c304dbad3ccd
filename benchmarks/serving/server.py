"""A server process for a benchmark: started as a user would, stopped at the end with all that it started."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ServerCommand", "measure_start_s", "our_command", "started_server"]

_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How to start a server on a port of ours. `model`: the name to ask for, where a server wants one."""

    words: Callable[[int], Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    start_timeout_s: float = _START_TIMEOUT_S
    log: Path = Path(os.devnull)  # takes its standard output, and its errors unless nobody keeps them


def our_command(*arguments: str) -> ServerCommand:
    """`tailrace serve`, with arguments. It finds no KV blocks of an earlier one, unless they say so."""
    isolated = () if "--kv-host" in arguments else ("--kv-host", "0")
    words = ("-m", "tailrace.cli", "serve", *isolated, *arguments)
    return ServerCommand(lambda port: [sys.executable, *words, "--port", str(port)])


@contextmanager
def started_server(command: ServerCommand) -> Iterator[str]:
    """The server on a free port; its URL once it has given a token. Raises TimeoutError or ConnectionError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with _process(command, port) as process:
        _await_token(process, port, command)
        yield f"http://127.0.0.1:{port}"


def measure_start_s() -> float:
    """Seconds from the start of our server's process to the first streamed token."""
    started_s = time.monotonic()
    with started_server(our_command()):
        return time.monotonic() - started_s


@contextmanager
def _process(command: ServerCommand, port: int) -> Iterator[subprocess.Popen[bytes]]:
    with command.log.open("wb") as log:
        errors = None if command.log == Path(os.devnull) else log
        process = subprocess.Popen(
            command.words(port),
            stdout=log,
            stderr=errors,
            env={**os.environ, **command.environment},
            start_new_session=True,  # its workers end with it
        )
        try:
            yield process
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for request in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, request)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
            return


def _await_token(process: subprocess.Popen[bytes], port: int, command: ServerCommand) -> None:
    """Ask until a token comes."""
    deadline_s = time.monotonic() + command.start_timeout_s
    name = {} if command.model is None else {"model": command.model}
    body = json.dumps({"prompt": "Once", "max_tokens": 1, "stream": True, **name})
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise ConnectionError(f"the server ended with status {process.returncode} before it gave a token")
        if _has_token(port, body):
            return
        time.sleep(0.005)
    raise TimeoutError(f"no token within {command.start_timeout_s:g} s")


def _has_token(port: int, body: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_TIMEOUT_S)
    try:
        connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        return reply.status == 200 and reply.readline().startswith(b"data:")
    except (OSError, http.client.HTTPException):
        return False  # not listening yet
    finally:
        connection.close()
