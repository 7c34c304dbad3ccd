"""Makes the frames of a server's console of what its processes say."""

import time
from collections.abc import Callable

import msgspec

from tailrace.frontends.http.status import WholeServer
from tailrace.telemetry.feed.builder import FrameBuilder
from tailrace.telemetry.feed.readings import Reading

__all__ = ["FrameMaker"]

_encode = msgspec.json.Encoder().encode


class FrameMaker:
    def __init__(self, server: WholeServer, builder: FrameBuilder, is_ready: Callable[[], bool]) -> None:
        self._server = server
        self._builder = builder
        self._is_ready = is_ready

    async def make(self) -> bytes:
        """The next one, as JSON."""
        metrics, views = await self._server.gather(), await self._server.views()
        reading = Reading(time.monotonic(), metrics.samples())
        frame = self._builder.build(reading, metrics.events.latest(), views, is_ready=self._is_ready())
        return _encode(frame)
