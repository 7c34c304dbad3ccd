"""Many answers at once, in order, however long it takes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tailrace.client.options import Completion
from tailrace.client.said import completion_of
from tailrace.client.stream import TextStream
from tailrace.client.together import together
from tailrace.errors import Overloaded, heeded_s
from tailrace.frontends.shm.layout import NUM_LANES

__all__ = ["answer_all", "in_a_loop"]

_Result = TypeVar("_Result")
_Start = Callable[[], Awaitable[TextStream]]


async def answer_all(starts: Sequence[_Start]) -> list[Completion]:
    """One completion for each; the first failure ends all. Who is told to come back later does."""
    room = asyncio.Semaphore(NUM_LANES)
    return await together(_answer(start, room) for start in starts)


def in_a_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of `work` on an event loop of its own, on a thread of its own: the caller's may be running."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tailrace-client", daemon=True)
    thread.start()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    finally:
        future.cancel()  # unless it is done
        asyncio.run_coroutine_threadsafe(_settle(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _answer(start: _Start, room: asyncio.Semaphore) -> Completion:
    async with room:
        while True:
            try:
                stream = await start()
                return completion_of([delta async for delta in stream.adeltas()], stream.usage)
            except Overloaded as error:
                await asyncio.sleep(heeded_s(error.retry_after_s))


async def _settle() -> None:
    """Until all else on this loop has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)
    await asyncio.get_running_loop().shutdown_asyncgens()
