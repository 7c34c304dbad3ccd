"""The HTTP front end before a scripted service, on a real socket, in a thread of the test's process."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import uvloop

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig, Patience
from tailrace.frontends.http.listener import bind
from tailrace.frontends.http.serve import serve
from tailrace.telemetry.prometheus import Metrics
from tests.support.scripted_service import ScriptedService

__all__ = ["TIMEOUT_S", "Server", "serving"]

TIMEOUT_S = 20


@dataclass
class Server:
    """A server in a thread of its own. Gates of a script belong to its loop: set them with `call`."""

    service: ScriptedService
    listener: socket.socket = field(default_factory=lambda: bind("127.0.0.1", 0))
    is_ready: threading.Event = field(default_factory=threading.Event)
    is_stopping: threading.Event = field(default_factory=threading.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    grace_s: int = 3600
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        self.port = self.listener.getsockname()[1]
        self.metrics = Metrics(model_name="tiny", version="0")

    def run(self) -> None:
        uvloop.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        app = create_app(self.service, self.metrics, HttpConfig(patience=self.patience))
        await serve(
            app,
            self.listener,
            on_ready=self.is_ready.set,
            on_stop=self._drain,
            stop=self.stop,
            grace_s=self.grace_s,
        )

    def _drain(self) -> None:
        self.service.is_ready = False
        self.is_stopping.set()

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)


@contextlib.contextmanager
def serving(service: ScriptedService, *, grace_s: int = 3600, patience: Patience | None = None) -> Iterator[Server]:
    server = Server(service, grace_s=grace_s, patience=patience or Patience())
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.is_ready.wait(TIMEOUT_S)
    try:
        yield server
    finally:
        with contextlib.suppress(RuntimeError):  # its loop may have ended by itself
            server.call(server.stop.set)
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
