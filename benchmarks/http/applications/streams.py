"""The applications that `benchmarks.http.servers` serves: GET /N streams N chunks, one a beat, each with its time.

It is imported by the servers under comparison and needs nothing but the standard library.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

_BEAT_S = 0.02


class Clock:
    """Wakes all streams at each beat, as an engine's step does."""

    def __init__(self) -> None:
        self._next: asyncio.Future[bytes] | None = None

    def next(self) -> asyncio.Future[bytes]:
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            loop.call_later(_BEAT_S, self._strike, self._next)
        return self._next

    def _strike(self, beat: asyncio.Future[bytes]) -> None:
        self._next = None
        beat.set_result(b"data: %.9f\n\n" % time.monotonic())


_clock = Clock()


async def chunks(path: str) -> AsyncIterator[bytes]:
    for _ in range(int(path[1:])):
        yield await _clock.next()


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for chunk in chunks(scope["path"]):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def rsgi(scope: Any, protocol: Any) -> None:
    transport = protocol.response_stream(200, [("content-type", "text/event-stream")])
    async for chunk in chunks(scope.path):
        await transport.send_bytes(chunk)
