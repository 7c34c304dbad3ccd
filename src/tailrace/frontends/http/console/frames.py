"""Makes the frames of a server's console of what its processes say."""

import time
from collections.abc import Callable

import msgspec

from tailrace.frontends.http.status import WholeServer
from tailrace.telemetry.feed.builder import FrameBuilder
from tailrace.telemetry.readings import Reading
from tailrace.telemetry.roofline_position import RooflinePosition

__all__ = ["FrameMaker"]

_encode = msgspec.json.Encoder().encode


class FrameMaker:
    """Without `position`, it is not shown where the server lies under the ceilings of its machine."""

    def __init__(
        self,
        server: WholeServer,
        builder: FrameBuilder,
        is_ready: Callable[[], bool],
        position: RooflinePosition | None = None,
    ) -> None:
        self._server = server
        self._position = position
        self._builder = builder
        self._is_ready = is_ready

    async def make(self) -> bytes:
        """The next one, as JSON."""
        metrics, views = await self._server.gather(), await self._server.views()
        reading = Reading(time.monotonic(), metrics.samples())
        roofline = None if self._position is None else self._position.line(reading)
        events = metrics.events.latest()
        frame = self._builder.build(reading, events, views, is_ready=self._is_ready(), roofline=roofline)
        return _encode(frame)
