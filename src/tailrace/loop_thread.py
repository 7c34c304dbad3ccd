"""An event loop in a thread of its own, for callers that block: what is given to it ends, also when it is closed."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["LoopClosed", "LoopThread"]

_Result = TypeVar("_Result")


class LoopClosed(RuntimeError):
    """The loop takes no more work."""


class LoopThread:
    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._lock = threading.Lock()  # nothing is handed over once it is said that nothing more will be
        self._is_closing = False

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """The result of work. Raises LoopClosed."""
        with self._lock:
            if self._is_closing:
                work.close()
                raise LoopClosed
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    async def arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """As `run`, without blocking the caller's own loop."""
        with self._lock:
            if self._is_closing:
                work.close()
                raise LoopClosed
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return await asyncio.wrap_future(future)

    def refuse(self) -> None:
        """From here on take no more work. What was given before goes on."""
        with self._lock:
            self._is_closing = True

    def close(self, patience_s: float) -> None:
        """Wait for what goes on, cancel what does not end, and end the thread."""
        self.refuse()
        asyncio.run_coroutine_threadsafe(_end_others(patience_s), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others(patience_s: float) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return
    _, left = await asyncio.wait(others, timeout=patience_s)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=patience_s)
