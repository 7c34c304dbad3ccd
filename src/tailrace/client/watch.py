"""News of answers for those who read them on event loops, through one pipe for all.

Loops of several threads may watch at once: whoever empties the pipe tells the others.
"""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Watch"]

_PIPE_BYTES = 4096

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Watch:
    """`is_over` is set when the pipe has ended, and with it all news."""

    def __init__(self, pipe: int) -> None:
        self.is_over = False
        self._pipe = pipe
        self._lock = threading.Lock()
        self._num_readers: Counter[asyncio.AbstractEventLoop] = Counter()
        self._waiters: list[_Waiter] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While it lasts, waiters of the running loop are woken."""
        loop = asyncio.get_running_loop()
        if not self._num_readers[loop] and not self.is_over:
            loop.add_reader(self._pipe, self._on_news, loop)
        self._num_readers[loop] += 1
        try:
            yield
        finally:
            self._num_readers[loop] -= 1
            if not self._num_readers[loop]:
                del self._num_readers[loop]
                loop.remove_reader(self._pipe)

    async def pause(self, pause_s: float) -> None:
        """As `time.sleep`, while others of the running loop go on."""
        await asyncio.sleep(pause_s)

    def waiter(self) -> "asyncio.Future[None]":
        """Done at the next news. Have it before you look, so that none can come between."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            self._waiters.append((loop, future))
        return future

    def _on_news(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self.is_over = self.is_over or not os.read(self._pipe, _PIPE_BYTES)
        except BlockingIOError:
            return  # another loop was faster, and tells this one
        if self.is_over:
            loop.remove_reader(self._pipe)
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for other, future in waiters:
            if other is loop:
                _settle(future)
            elif not other.is_closed():
                other.call_soon_threadsafe(_settle, future)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
