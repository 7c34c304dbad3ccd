"""Runs the application under uvicorn, on a socket that was bound before anything slow began."""

import asyncio
import contextlib
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tailrace.frontends.http.http2 import PREFACE
from tailrace.frontends.http.listener import BACKLOG, MAX_UNSENT_BYTES
from tailrace.frontends.http.request_head import REFUSAL, HeadWatch, is_too_large

__all__ = ["serve"]

_KEEP_ALIVE_S = 75
_NO_LINGERING = struct.pack("ii", 1, 0)
_TICK_S = 0.02
_HTTP2_AFTER_S = 3.0
_LAST_WORDS_S = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    *,
    on_ready: Callable[[], None] | None = None,
    on_stop: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
    grace_s: float = 30.0,
) -> None:
    """Serves until SIGINT, SIGTERM or `stop`; returns when all is closed. Meant to run under `uvloop.run`.

    `on_ready` is called once connections are accepted. At the end `on_stop` is called first: from then on the
    application should refuse new work. Answers under way have `grace_s` to finish, and connections are accepted as
    long, so that a balancer that asks is told; then all is closed. A second SIGINT cuts that short.
    """
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    server = _Server(config, on_ready or _nothing, on_stop or _nothing, stop or asyncio.Event(), grace_s)
    loading = asyncio.create_task(_load_http2())
    await server.serve(sockets=[listener])
    loading.cancel()


async def _load_http2() -> None:
    """Takes a thirtieth of a second: not before the first answers, which it would hold up, nor when it is spoken."""
    await asyncio.sleep(_HTTP2_AFTER_S)
    await asyncio.to_thread(import_module, "tailrace.frontends.http.http2.connection")


def _nothing() -> None:
    pass


class _Connection(HttpToolsProtocol):
    """uvicorn's, with bounds for heads and for who reads slowly, and a way to drop a connection with all that it was
    not sent.

    A connection that begins with the preface of HTTP/2 is handed over.
    """

    _opening: bytes | None = b""  # what may become the preface; None: it was something else

    def data_received(self, data: bytes) -> None:
        if self._opening is not None:
            data, self._opening = self._opening + data, None
            if PREFACE.startswith(data[: len(PREFACE)]):
                self._await_preface(data)
                return
        was_in_head = self._head.is_in_head
        super().data_received(data)
        if was_in_head and self._head.is_in_head and not self._head.count(len(data)):
            self._refuse_head()

    def _await_preface(self, data: bytes) -> None:
        if len(data) < len(PREFACE):
            self._opening = data
            return
        self.connections.discard(self)
        self._head.end()
        from tailrace.frontends.http.http2.connection import Http2Connection  # noqa: PLC0415  (mostly loaded by now)

        Http2Connection(self.config.loaded_app, self.server_state, self.transport).data_received(data)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self._head = HeadWatch(self._cut)
        self._head.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.end()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head.begin()
        self.scope["state"]["tailrace.cut"] = self._cut

    def on_headers_complete(self) -> None:
        self._head.end()
        if is_too_large(self.url, self.headers):
            self._refuse_head()
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():  # else there may be no request that it belongs to
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def _refuse_head(self) -> None:
        self._head.end()
        self.transport.write(REFUSAL)
        self.transport.close()

    def _cut(self) -> None:
        """Closes the connection; without lingering, the system keeps nothing of it either."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
        self.transport.abort()


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
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
        stop: asyncio.Event,
        grace_s: float,
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._stop = stop
        self._grace_s = grace_s
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
            for connection in tuple(self.server_state.connections):
                if (announce_drain := getattr(connection, "announce_drain", None)) is not None:  # HTTP/2 can say it
                    announce_drain()
            self._drain = _Drain(self.server_state.tasks, self._grace_s)
        return self._drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes all. What is left of the time is for clients that still have to receive the end of their answer."""
        drain = self._draining()
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._wait_until_empty(lambda: drain.left_s > 0 and not self.force_exit)
        for answer in tuple(self.server_state.tasks):
            answer.cancel()  # each has a moment for its last words
        ends_s = time.monotonic() + _LAST_WORDS_S
        await self._wait_until_empty(lambda: time.monotonic() < ends_s)
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    async def _wait_until_empty(self, has_time: Callable[[], bool]) -> None:
        while (self.server_state.connections or self.server_state.tasks) and has_time():
            await asyncio.sleep(_TICK_S)

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
