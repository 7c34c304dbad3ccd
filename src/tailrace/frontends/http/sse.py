"""Streams an answer as server-sent events: a reader task fills a bounded buffer, the writer sends what is there.

Deltas that arrive while the socket is busy, or all at once, leave in one write.
"""

import asyncio

from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.gaps import GapClock
from tailrace.frontends.http.openai.chunks import ChunkWriter
from tailrace.frontends.http.openai.request import Job
from tailrace.service.api import GenerationStream

__all__ = ["send_stream"]


class FrameBuffer:
    """Frames between reader and writer. The reader pauses once `limit` bytes wait."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit
        self._is_closed = False
        self._error: Exception | None = None
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return len(self.data) >= self._limit

    def offer(self) -> None:
        """Tells the writer that there are frames."""
        self._filled.set()

    def close(self, error: Exception | None = None) -> None:
        """No more frames come; `error` is why, if it is not the end."""
        self._is_closed = True
        self._error = error
        self._filled.set()

    async def room(self) -> None:
        """Waits until the writer has taken what is there."""
        self._emptied.clear()
        await self._emptied.wait()

    async def take(self) -> bytes:
        """All frames there are, at least one; empty at the end. Raises the reader's error once they are taken."""
        if not self.data and not self._is_closed:
            self._filled.clear()
            await self._filled.wait()
        taken = bytes(self.data)
        self.data.clear()
        self._emptied.set()
        if not taken and self._error is not None:
            raise self._error
        return taken


async def send_stream(
    exchange: Exchange, stream: GenerationStream, job: Job, *, writer: ChunkWriter, clock: GapClock, max_bytes: int
) -> None:
    """Sends all of a stream. Raises what ended it early; nothing is sent before there is something to send."""
    buffer = FrameBuffer(max_bytes)
    reader = asyncio.create_task(_read(stream, job, writer, clock, buffer))
    try:
        frames = await buffer.take()
        await exchange.start_stream()
        while frames:
            await exchange.write(frames)
            frames = await buffer.take()
        await exchange.end_stream()
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _read(stream: GenerationStream, job: Job, writer: ChunkWriter, clock: GapClock, buffer: FrameBuffer) -> None:
    try:
        async for delta in stream:
            clock.tick(delta)
            writer.write(buffer.data, delta, stream.usage if job.continuous_usage else None)
            if buffer.data:
                buffer.offer()
            if buffer.is_full:
                await buffer.room()
        writer.close(buffer.data, stream.usage if job.include_usage else None)
        buffer.close()
    except Exception as error:
        buffer.close(error)
