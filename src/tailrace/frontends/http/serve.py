"""Runs the application under uvicorn, on a socket that was bound before anything slow began."""

import asyncio
import contextlib
import errno
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import uvicorn
from starlette.types import ASGIApp

from tailrace.errors import SetupError

__all__ = ["bind", "serve"]

_BACKLOG = 2048
_KEEP_ALIVE_S = 75
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Connections wait until `serve` runs.

    Raises SetupError with what to do when the address cannot be had.
    """
    if not 0 <= port <= 65535:
        raise SetupError(
            f"port {port} does not exist; choose one from 1 to 65535 with --port, or 0 for any that is free"
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise SetupError(f"cannot resolve {host}:{port} ({error}); check --host and --port") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise SetupError(_advice(error, host, port)) from None
    return listener


def _advice(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another program; stop it, or choose another port with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose one with --host (127.0.0.1 for local use)"
    return f"cannot listen on {host}:{port}: {error.strerror}; check --host and --port"


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    on_ready: Callable[[], None] | None = None,
    on_stop: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
    grace_s: int = 30,
) -> None:
    """Serves until SIGINT, SIGTERM or `stop`; returns when all is closed. Meant to run under `uvloop.run`.

    `on_ready` is called once connections are accepted. At the end `on_stop` is called first: from then on the
    application should refuse new work. Answers under way have `grace_s` to finish, and connections are accepted as
    long, so that a balancer that asks is told; then all is closed. A second SIGINT cuts that short.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=grace_s,
    )
    server = _Server(config, on_ready or _nothing, on_stop or _nothing, stop or asyncio.Event())
    await server.serve(sockets=[listener])


def _nothing() -> None:
    pass


class _Drain:
    """The time between being told to stop and stopping: the answers under way when it began may end in it."""

    def __init__(self, answers: Iterable[asyncio.Task[None]], grace_s: float) -> None:
        self._answers = tuple(answers)
        self._ends_s = time.monotonic() + grace_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._ends_s - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left_s == 0 or all(answer.done() for answer in self._answers)


class _Server(uvicorn.Server):
    """uvicorn with hooks; it offers no other way to have them."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None], stop: asyncio.Event
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._stop = stop
        self._grace_s = config.timeout_graceful_shutdown or 0
        self._drain: _Drain | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Whether to leave the loop that serves, which goes on while the answers under way do."""
        if not (await super().on_tick(counter) or self._stop.is_set()):
            return False
        return self.force_exit or self._draining().is_over

    def _draining(self) -> _Drain:
        """The drain, which the first call begins."""
        if self._drain is None:
            self._on_stop()
            self._drain = _Drain(self.server_state.tasks, self._grace_s)
        return self._drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # What is left of the time is for clients that still have to receive the end of their answer.
        left_s = self._draining().left_s
        self.config.timeout_graceful_shutdown = 0 if self.force_exit else math.ceil(left_s)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes the signals while serving. Unlike uvicorn's own, does not raise them again afterwards: whoever called
        `serve` still has an engine to end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
