"""Several prompts of one request, read as one stream."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from tailrace.service.api import ChoiceDelta, Generation, GenerationStream, Service, Usage

__all__ = ["start_all"]

_MAX_WAITING = 128  # deltas between the streams and their reader


async def start_all(service: Service, generations: Sequence[Generation]) -> GenerationStream:
    """Starts all or none. Choice `i` of generation `g` becomes choice `g * n + i`."""
    if len(generations) == 1:
        return await service.start(generations[0])
    streams: list[GenerationStream] = []
    try:
        for generation in generations:
            streams.append(await service.start(generation))  # noqa: PERF401 - those started must be closed on failure
    except BaseException:
        await _close_all(streams)
        raise
    return _MergedStream(streams, generations[0].n)


async def _close_all(streams: Sequence[GenerationStream]) -> None:
    await asyncio.gather(*(stream.aclose() for stream in streams))


class _MergedStream:
    def __init__(self, streams: Sequence[GenerationStream], n: int) -> None:
        self._streams = streams
        self._n = n
        self._items: asyncio.Queue[ChoiceDelta | Exception | None] = asyncio.Queue(_MAX_WAITING)
        self._readers: list[asyncio.Task[None]] = []

    @property
    def prompt_tokens(self) -> int:
        return sum(stream.prompt_tokens for stream in self._streams)

    @property
    def usage(self) -> Usage:
        usages = [stream.usage for stream in self._streams]
        return Usage(
            sum(usage.prompt_tokens for usage in usages),
            sum(usage.completion_tokens for usage in usages),
            sum(usage.cached_tokens for usage in usages),
        )

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        self._readers = [asyncio.create_task(self._read(i, stream)) for i, stream in enumerate(self._streams)]
        num_open = len(self._readers)
        while num_open:
            item = await self._items.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                num_open -= 1
            else:
                yield item

    async def _read(self, position: int, stream: GenerationStream) -> None:
        """Hands over the stream's deltas, then None, or the error that ended it."""
        try:
            async for delta in stream:
                await self._items.put(replace(delta, index=position * self._n + delta.index))
        except Exception as error:
            await self._items.put(error)
        else:
            await self._items.put(None)

    async def aclose(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await _close_all(self._streams)
