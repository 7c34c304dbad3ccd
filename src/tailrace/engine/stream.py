"""Events on their way to readers on an event loop: one wake-up a step, and no more than a reader can take.

A stream whose reader lags has its request paused: the engine computes no more of it until the reader has caught up.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from tailrace.types import TokenEvent

__all__ = ["MAX_UNTAKEN", "EventBuffer", "EventStream", "FlowControl", "StreamTable"]

MAX_UNTAKEN = 128  # events of a stream that wait for its reader; then its request is paused
_FIRST_PLACES = 8
_NOTHING = TokenEvent("", None)


class FlowControl(Protocol):
    """Who computes requests, and can leave off."""

    def pause(self, request_id: str) -> None:
        """Compute no more of a request until `proceed`."""
        ...

    def proceed(self, request_id: str) -> None:
        """Go on with a request that was paused."""
        ...


class EventBuffer:
    """Events in order, all taken at once.

    When its places are used up it gets as many as twice those in flight and a fifth more, up to its bound. What comes
    beyond that was under way when the bound was reached: it is kept as well.
    """

    def __init__(self, bound: int = MAX_UNTAKEN) -> None:
        self._bound = bound
        self._places = [_NOTHING] * min(_FIRST_PLACES, bound)
        self._num_events = 0

    def __len__(self) -> int:
        return self._num_events

    @property
    def num_places(self) -> int:
        return len(self._places)

    def push(self, event: TokenEvent) -> None:
        if self._num_events == len(self._places):
            self._grow()
        self._places[self._num_events] = event
        self._num_events += 1

    def take(self) -> Sequence[TokenEvent]:
        """All that are there; their places are free."""
        count = self._num_events
        taken = self._places[:count]
        self._places[:count] = [_NOTHING] * count
        self._num_events = 0
        return taken

    def _grow(self) -> None:
        in_flight = self._num_events
        wanted = min(in_flight * 12 // 5, self._bound)
        self._places += [_NOTHING] * max(wanted - in_flight, _FIRST_PLACES)


class EventStream:
    """The events of one request. One reader; what arrived since its last read comes together.

    Without `flow` nothing is paused.
    """

    def __init__(self, request_id: str = "", flow: FlowControl | None = None) -> None:
        self._request_id = request_id
        self._flow = flow
        self._events = EventBuffer()
        self._wake: Callable[[], object] = _nobody
        self._has_ended = False
        self.is_paused = False

    def push(self, event: TokenEvent) -> None:
        self._events.push(event)
        num_events = len(self._events)
        if event.finish_reason is not None:
            self._has_ended = True
        elif num_events >= MAX_UNTAKEN and not self.is_paused and self._flow is not None:
            self.is_paused = True
            self._flow.pause(self._request_id)
        if num_events == 1:
            self._wake()

    def take(self) -> Sequence[TokenEvent]:
        """What arrived since the last call, perhaps nothing."""
        events = self._events.take()
        if self._flow is not None and self.is_paused and not self._has_ended:
            self.is_paused = False
            self._flow.proceed(self._request_id)
        return events

    def watch(self, wake: Callable[[], object]) -> None:
        """Calls `wake` whenever there is something to take after there was nothing; at once, if there is now."""
        self._wake = wake
        if len(self._events):
            wake()

    async def __aiter__(self) -> AsyncIterator[Sequence[TokenEvent]]:
        arrival = asyncio.Event()
        self.watch(arrival.set)
        while True:
            await arrival.wait()
            arrival.clear()
            events = self.take()
            yield events
            if events[-1].finish_reason is not None:
                return


def _nobody() -> None:
    """Nobody waits yet."""


class StreamTable:
    """The open streams of one event loop. `open` and `deliver` run on it; `publish` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flow: FlowControl | None = None) -> None:
        self._loop = loop
        self._flow = flow
        self.delivered_s = 0.0  # when the latest events came; monotonic
        self._streams: dict[str, EventStream] = {}

    def open(self, request_id: str) -> EventStream:
        """A stream for a new request. Raises KeyError when the id is in use."""
        if request_id in self._streams:
            raise KeyError(f"request id {request_id} is in use")
        stream = self._streams[request_id] = EventStream(request_id, self._flow)
        return stream

    def close(self, request_id: str) -> None:
        """Forget a stream; its events are dropped from now on."""
        self._streams.pop(request_id, None)

    def publish(self, events: Sequence[TokenEvent]) -> None:
        if events and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, events)

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        self.delivered_s = time.monotonic()
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
