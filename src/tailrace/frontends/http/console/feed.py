"""Gives everybody who looks the same frames: they are made once a second while somebody does, and else not at all."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from tailrace.errors import Overloaded

__all__ = ["LiveFeed"]

_EVERY_S = 1.0
_MAX_READERS = 32
_RETRY_S = 10.0


class LiveFeed:
    """`make` makes a frame. Who reads slowly misses some, and holds up nobody."""

    def __init__(self, make: Callable[[], Awaitable[bytes]], every_s: float = _EVERY_S) -> None:
        self._make = make
        self._every_s = every_s
        self._readers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Each new frame, until the feed is closed. Raises Overloaded, and what making a frame does."""
        if len(self._readers) >= _MAX_READERS:
            raise Overloaded(f"{_MAX_READERS} consoles are open already", retry_after_s=_RETRY_S)
        reader: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._readers.add(reader)
        try:
            self._start()
            while not self._is_closed and (frame := await reader.get()) is not None:
                yield frame
            if self._task is not None and self._task.done():
                self._task.result()
        finally:
            self._readers.discard(reader)
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None

    def close(self) -> None:
        """Everybody has seen the last frame: the server ends."""
        self._is_closed = True
        self._give(None)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                self._give(await self._make())
                await asyncio.sleep(self._every_s)
        finally:
            self._give(None)

    def _give(self, frame: bytes | None) -> None:
        for reader in self._readers:
            if reader.full():
                reader.get_nowait()
            reader.put_nowait(frame)
