"""Events on their way from the step loop's thread to readers on an event loop: one wake-up a step, not one a token."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from tailrace.types import TokenEvent

__all__ = ["EventStream", "StreamTable"]


class EventStream:
    """The events of one request. One reader; what arrived since its last read comes together."""

    def __init__(self) -> None:
        self._events: list[TokenEvent] = []
        self._waiter: asyncio.Future[None] | None = None
        self._is_finished = False

    def push(self, event: TokenEvent) -> None:
        self._events.append(event)
        self._is_finished = self._is_finished or event.finish_reason is not None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __aiter__(self) -> AsyncIterator[tuple[TokenEvent, ...]]:
        while True:
            if self._events:
                events = tuple(self._events)
                self._events.clear()
                yield events
            elif self._is_finished:
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter


class StreamTable:
    """The open streams of one event loop. `open` and `deliver` run on it; `publish` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._streams: dict[str, EventStream] = {}

    def open(self, request_id: str) -> EventStream:
        """A stream for a new request. Raises KeyError when the id is in use."""
        if request_id in self._streams:
            raise KeyError(f"request id {request_id} is in use")
        stream = self._streams[request_id] = EventStream()
        return stream

    def close(self, request_id: str) -> None:
        """Forget a stream; its events are dropped from now on."""
        self._streams.pop(request_id, None)

    def publish(self, events: Sequence[TokenEvent]) -> None:
        if events and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, events)

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        for event in events:
            stream = self._streams.get(event.request_id)
            if stream is None:
                continue
            stream.push(event)
            if event.finish_reason is not None:
                del self._streams[event.request_id]

    @property
    def num_open(self) -> int:
        return len(self._streams)
