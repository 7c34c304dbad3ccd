"""The answer to one request, as its reader sees it: blocking or on an event loop, as text or as deltas."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing

from tailrace.client.answer import AnswerReader, Begun, News
from tailrace.client.link import Link
from tailrace.client.options import Call
from tailrace.client.said import Said
from tailrace.errors import EngineError
from tailrace.frontends.shm.layout import Lane
from tailrace.frontends.shm.wire import AnswerDelta, AnswerUsage
from tailrace.service.api import ChoiceDelta, Usage
from tailrace.types import FinishReason

__all__ = ["TextStream"]


class TextStream:
    """Iterates over pieces of text as they are computed. `usage` and `finish_reason` are final once it has ended.

    `reasoning` and `calls` are what the answer has besides its text, as far as it has been read. Leaving the iteration
    stops the work; so does `close`, or `aclose` in a coroutine. With several choices, for log probabilities, or to see
    reasoning and calls while they come, read `deltas` or `adeltas` instead.
    """

    def __init__(self, link: Link, lane: Lane) -> None:
        self.finish_reason: FinishReason | None = None
        self._link = link
        self._lane = lane
        self._answer = AnswerReader(lane)
        self._num_prompt_tokens = 0
        self._num_tokens = 0
        self._usage: Usage | None = None
        self._said = Said()
        self._is_open = True

    @property
    def usage(self) -> Usage:
        """Tokens so far; how many of the prompt's came from the cache is known at the end."""
        return self._usage or Usage(self._num_prompt_tokens, self._num_tokens, 0)

    @property
    def reasoning(self) -> str:
        """So far; with several choices, that of the first."""
        return self._said.reasoning

    @property
    def calls(self) -> tuple[Call, ...]:
        """So far, the last perhaps not whole; with several choices, those of the first."""
        return self._said.calls

    def __iter__(self) -> Iterator[str]:
        with closing(self._deltas()) as deltas:
            for delta in deltas:
                if delta.text:
                    yield delta.text

    async def __aiter__(self) -> AsyncIterator[str]:
        async with aclosing(self._adeltas()) as deltas:
            async for delta in deltas:
                if delta.text:
                    yield delta.text

    def deltas(self) -> Iterator[ChoiceDelta]:
        """As the server's text side makes them, of whichever choice."""
        with closing(self._deltas()) as deltas:
            for delta in deltas:
                yield delta.to_choice_delta()

    async def adeltas(self) -> AsyncIterator[ChoiceDelta]:
        """As `deltas`, for `async for`."""
        async with aclosing(self._adeltas()) as deltas:
            async for delta in deltas:
                yield delta.to_choice_delta()

    def close(self) -> None:
        """Stop computing. Harmless when it has ended, or the server has."""
        self._give_up(self._link.leave)

    async def aclose(self) -> None:
        """As `close`, which never blocks."""
        self.close()

    def __del__(self) -> None:
        self._give_up(self._link.drop)

    def begin(self) -> None:
        """Wait until the server has taken the request. Raises what it refuses it with."""
        try:
            self._take_in(self._next())
        except BaseException:
            self.close()
            raise

    async def abegin(self) -> None:
        """As `begin`, on an event loop."""
        try:
            with self._link.watch.listening():
                await self._link.asend_watch(self._lane)
                self._take_in(await self._anext())
        except BaseException:
            self.close()
            raise

    def _give_up(self, leave: Callable[[Lane], None]) -> None:
        if self._is_open:
            self._is_open = False
            finish = self._link.give_back if self._answer.is_over else leave
            finish(self._lane)

    def _deltas(self) -> Generator[AnswerDelta, None, None]:
        try:
            while self._is_open and (delta := self._take_in(self._next())) is not None:
                yield delta
        finally:
            self.close()

    async def _adeltas(self) -> AsyncGenerator[AnswerDelta, None]:
        try:
            with self._link.watch.listening():
                if self._is_open:
                    await self._link.asend_watch(self._lane)
                while self._is_open and (delta := self._take_in(await self._anext())) is not None:
                    yield delta
        finally:
            self.close()

    def _next(self) -> News:
        while (news := self._answer.take()) is None:
            self._link.wait(self._lane)
        return news

    async def _anext(self) -> News:
        watch = self._link.watch
        while (news := self._answer.take()) is None:
            waiter = watch.waiter()
            if (news := self._answer.take()) is not None:
                break
            if watch.is_over:
                self._link.check()
            await waiter
        return news

    def _take_in(self, news: News) -> AnswerDelta | None:
        """What there is to be read of it; None at the end. Raises the error that ends it."""
        if isinstance(news, AnswerDelta):
            if news.error is not None:
                raise EngineError(news.error)
            self._num_tokens += len(news.token_ids)
            self.finish_reason = news.finish_reason or self.finish_reason
            if (news.reasoning or news.calls) and news.index == 0:
                self._said.add(news.reasoning, news.calls)
            return news
        if isinstance(news, Begun):
            self._num_prompt_tokens = news
        elif isinstance(news, AnswerUsage):
            self._usage = news.to_usage()
        else:
            raise news
        return None
