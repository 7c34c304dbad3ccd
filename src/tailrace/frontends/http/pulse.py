"""The writes of one event stream: comments while there is nothing else to send, and an end to who takes nothing.

    : keep-alive          a comment: clients drop it, and nothing between here and them takes the stream for dead

One timer watches both, and rings no more often than something could be due: a write needs no timer of its own.
"""

import asyncio
import math
from types import TracebackType

from tailrace.frontends.http.config import Patience
from tailrace.frontends.http.exchange import Exchange
from tailrace.telemetry.http import HttpMetrics

__all__ = ["Pulse"]


class Pulse:
    """Begins the answer with its first write, or with the first comment. Enter it with the work that writes.

    A client that takes nothing for `stall_s` is cut off, which ends the exchange as if the client had gone.
    """

    __slots__ = (
        "_buffered",
        "_comment",
        "_exchange",
        "_keep_alive",
        "_last_s",
        "_loop",
        "_now",
        "_num_buffered",
        "_patience",
        "_timer",
        "_write_s",
    )

    def __init__(self, exchange: Exchange, patience: Patience, metrics: HttpMetrics, keep_alive: bytes) -> None:
        self._exchange = exchange
        self._patience = patience
        self._buffered = metrics.buffered
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._last_s = self._now()  # when the last write began
        self._write_s: float | None = None  # when the one began that is under way
        self._num_buffered = 0  # bytes of that write
        self._comment: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> "Pulse":
        self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()
            await asyncio.gather(self._comment, return_exceptions=True)
        self._buffered.value -= self._num_buffered

    async def write(self, frames: bytes) -> None:
        """Sends frames; waits while the client takes nothing."""
        if self._comment is not None:
            await self._comment
            self._comment = None
        self._exchange.phase = "writing"
        await self._send(frames)
        self._exchange.phase = "answering"

    async def end(self, frames: bytes) -> None:
        """Sends the last frames."""
        await self.write(frames)
        self._write_s = self._now()
        await self._exchange.end_stream()

    async def _send(self, frames: bytes) -> None:
        exchange = self._exchange
        self._num_buffered = len(frames)
        self._buffered.value += self._num_buffered
        self._write_s = self._last_s = self._now()
        if exchange.status is None:
            await exchange.start_stream()
        await exchange.write(frames)
        self._write_s = None
        self._buffered.value -= self._num_buffered
        self._num_buffered = 0

    def _look(self) -> None:
        """Does what is due, and comes back when the next thing could be."""
        now, stall_s = self._now(), self._patience.stall_s
        due_s = min(self._next_comment_s(now), now + stall_s) if self._write_s is None else self._write_s + stall_s
        if due_s <= now:
            self._exchange.cut_off()
        else:
            self._timer = self._loop.call_at(due_s, self._look)

    def _next_comment_s(self, now: float) -> float:
        """When one will be due; if one is, it is sent."""
        silence_s = self._patience.keep_alive_s
        if silence_s == 0:
            return math.inf
        if now >= self._last_s + silence_s:
            self._write_s = self._last_s = now
            self._comment = self._loop.create_task(self._send(self._keep_alive))
        return self._last_s + silence_s
