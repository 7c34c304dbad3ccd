"""Questions to the step loop that wait for their answer on an event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tailrace.errors import UnavailableError
from tailrace.types import CacheAnswer, CacheQuery

__all__ = ["Questions"]

Answer = TypeVar("Answer", bound=CacheAnswer)


class Questions:
    """`ask` runs on the event loop; `reply` and `end` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, asyncio.Future[CacheAnswer]] = {}
        self._last_id = 0

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def ask(self, query: CacheQuery, send: Callable[[CacheQuery], None], kind: type[Answer]) -> Answer:
        """Send a query; its answer. Raises what `send` does, and UnavailableError when the engine ends before it."""
        waiting = self._waiting[query.query_id] = self._loop.create_future()
        try:
            send(query)
            answer = await waiting
        finally:
            del self._waiting[query.query_id]
        assert isinstance(answer, kind), f"query {query.query_id} got a {type(answer).__name__}"
        return answer

    def reply(self, answer: CacheAnswer) -> None:
        self._call(self._answer, answer)

    def end(self) -> None:
        """No more answers come."""
        self._call(self._fail_all)

    def _call(self, call: Callable[..., None], *arguments: CacheAnswer) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _answer(self, answer: CacheAnswer) -> None:
        waiting = self._waiting.get(answer.query_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _fail_all(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(UnavailableError("the engine has stopped and answers no more"))
