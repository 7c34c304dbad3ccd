"""Several prompts of one request, read as one stream."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from tailrace.service.api import ChoiceDelta, Generation, GenerationStream, Service, Usage

__all__ = ["start_all"]

_MAX_WAITING = 128  # hand-overs between the streams and their reader

_Item = Sequence[ChoiceDelta] | Exception


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
        self._num_open = len(streams)
        self._failure: Exception | None = None
        self._items: asyncio.Queue[_Item] = asyncio.Queue(_MAX_WAITING)
        self._readers: list[asyncio.Task[None]] = []

    @property
    def prompt_tokens(self) -> int:
        return sum(stream.prompt_tokens for stream in self._streams)

    @property
    def usage(self) -> Usage:
        return Usage.of_all([stream.usage for stream in self._streams])

    async def take(self) -> Sequence[ChoiceDelta]:
        if self._failure is not None:
            raise self._failure
        if not self._readers:
            self._readers = [asyncio.create_task(self._read(i, stream)) for i, stream in enumerate(self._streams)]
        deltas: list[ChoiceDelta] = []
        while self._num_open and not deltas:
            self._add(deltas, await self._items.get())
            while self._failure is None and not self._items.empty():
                self._add(deltas, self._items.get_nowait())
        return deltas

    def _add(self, deltas: list[ChoiceDelta], item: _Item) -> None:
        """What a reader has handed over. Raises what ended its stream, once all before that is out."""
        if isinstance(item, Exception):
            self._failure = item
            if not deltas:
                raise item
        elif item:
            deltas += item
        else:
            self._num_open -= 1

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        while deltas := await self.take():
            for delta in deltas:
                yield delta

    async def _read(self, position: int, stream: GenerationStream) -> None:
        """Hands over the stream's deltas, none at its end, or the error that ended it."""
        try:
            while deltas := await stream.take():
                await self._items.put([replace(each, index=position * self._n + each.index) for each in deltas])
            await self._items.put(())
        except Exception as error:
            await self._items.put(error)

    async def aclose(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await _close_all(self._streams)
