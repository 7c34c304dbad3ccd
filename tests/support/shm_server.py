"""A front end in shared memory on a thread of this process, over any service, in a directory of the test's own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from tailrace.client.client import Client
from tailrace.client.joining import join
from tailrace.frontends.shm.config import ShmConfig
from tailrace.frontends.shm.lobby import Lobby
from tailrace.frontends.shm.server import serve_shm
from tailrace.service.api import Service
from tailrace.telemetry.prometheus import Metrics

__all__ = ["ShmServer", "serving"]

NAME = "test"
TIMEOUT_S = 20.0


@dataclass
class ShmServer:
    """Gates of a script belong to its loop: set them with `call`."""

    service: Service
    parent: Path
    config: ShmConfig
    grace_s: float
    metrics: Metrics = field(default_factory=lambda: Metrics(model_name="tiny", version="1.2.3"))
    is_ready: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> Client:
        return Client(join(NAME, self.parent))

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        self.call(self._stop.set)

    def value(self, name: str, *labels: str) -> float:
        """Of a series, by the last part of its name."""
        (series,) = [each for each in self.metrics.shm.series if each.metric.name == f"tailrace_shm_{name}"]
        return series.values[labels] if labels else series.value  # type: ignore[union-attr]  # which kind, its name says

    def run(self) -> None:
        uvloop.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        with Lobby.claim(NAME, self.parent) as lobby:
            self._loop.call_soon(self.is_ready.set)
            await serve_shm(lobby, self.service, self.metrics.shm, self.config, stop=self._stop, grace_s=self.grace_s)


@contextmanager
def serving(
    service: Service, parent: Path, config: ShmConfig | None = None, *, grace_s: float = 0.0
) -> Iterator[ShmServer]:
    server = ShmServer(service, parent, config or ShmConfig(), grace_s)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.is_ready.wait(TIMEOUT_S)
    try:
        yield server
    finally:
        if thread.is_alive():
            server.stop()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
