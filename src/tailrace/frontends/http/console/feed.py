"""Gives everybody who looks the same frames: they are made once a second while somebody does, and else not at all."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from tailrace.errors import Overloaded

__all__ = ["LiveFeed"]

_EVERY_S = 1.0
_MAX_READERS = 32
_RETRY_S = 10.0


_Given = bytes | Exception | None
"""A frame, why there is none, or the end."""


class LiveFeed:
    """`make` makes a frame. Who reads slowly misses some, and holds up nobody."""

    def __init__(self, make: Callable[[], Awaitable[bytes]], every_s: float = _EVERY_S) -> None:
        self._make = make
        self._every_s = every_s
        self._readers: set[asyncio.Queue[_Given]] = set()
        self._latest: bytes | None = None  # None: nobody has looked just before
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The latest at once, then each new one, until it is closed. Raises Overloaded, and what `make` raises."""
        if len(self._readers) >= _MAX_READERS:
            raise Overloaded(f"{_MAX_READERS} consoles are open already", retry_after_s=_RETRY_S)
        reader: asyncio.Queue[_Given] = asyncio.Queue(1)
        self._readers.add(reader)
        try:
            self._start(reader)
            while not self._is_closed and (given := await reader.get()) is not None:
                if isinstance(given, Exception):
                    raise given
                yield given
        finally:
            self._readers.discard(reader)
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = self._latest = None

    def close(self) -> None:
        """Everybody has seen the last frame: the server ends."""
        self._is_closed = True
        self._give(None)

    def _start(self, reader: asyncio.Queue[_Given]) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._latest is not None:
            reader.put_nowait(self._latest)

    async def _run(self) -> None:
        try:
            while True:
                self._latest = await self._make()
                self._give(self._latest)
                await asyncio.sleep(self._every_s)
        except Exception as error:  # those who look are told; who comes then has it tried again
            self._task = self._latest = None
            self._give(error)

    def _give(self, given: _Given) -> None:
        for reader in self._readers:
            if reader.full():
                reader.get_nowait()
            reader.put_nowait(given)
