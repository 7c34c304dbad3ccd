"""The answer to one request while it is made: the choices' events, merged as they arrive and turned into deltas."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import AsyncGeneratorType
from typing import cast

from tailrace.engine.client import EngineClient, TokenStream
from tailrace.errors import TailraceError
from tailrace.service.api import ChoiceDelta, Usage
from tailrace.service.choice import Choice
from tailrace.types import FinishReason, TokenEvent

__all__ = ["SubmittedChoice", "TextStream"]

_Events = tuple[TokenEvent, ...]


@dataclass(frozen=True, slots=True)
class SubmittedChoice:
    """A choice and the engine request that computes it."""

    choice: Choice
    request_id: str
    tokens: TokenStream


class TextStream:
    """A GenerationStream. One reader; leaving it early or `aclose` aborts what the engine still computes."""

    def __init__(
        self, engine: EngineClient, submitted: Sequence[SubmittedChoice], *, prompt_tokens: int, echoed: str = ""
    ) -> None:
        self._engine = engine
        self._submitted = submitted
        self._prompt_tokens = prompt_tokens
        self._echoed = echoed
        self._deltas = cast("AsyncGeneratorType[ChoiceDelta, None]", self._run())

    @property
    def prompt_tokens(self) -> int:
        return self._prompt_tokens

    @property
    def usage(self) -> Usage:
        """The prompt counts once, as the first choice met it: the others find it in the cache by then."""
        choices = [submitted.choice for submitted in self._submitted]
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=sum(choice.num_tokens for choice in choices),
            cached_tokens=choices[0].num_cached_tokens,
        )

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        return self._deltas

    async def aclose(self) -> None:
        self._abort_unfinished()
        if not self._deltas.ag_running:  # a reader that waits elsewhere is woken by the end of its events
            await self._deltas.aclose()

    async def _run(self) -> AsyncGenerator[ChoiceDelta, None]:
        try:
            if self._echoed:
                for submitted in self._submitted:
                    yield ChoiceDelta(submitted.choice.index, self._echoed)
            async with aclosing(_merged(self._submitted)) as arrivals:
                async for submitted, events in arrivals:
                    if (delta := self._feed(submitted, events)) is not None:
                        yield delta
        finally:
            self._abort_unfinished()

    def _feed(self, submitted: SubmittedChoice, events: _Events) -> ChoiceDelta | None:
        if submitted.choice.is_done:
            return None
        delta = submitted.choice.feed(events)
        has_ended = delta is not None and delta.finish_reason is not None
        if has_ended and events[-1].finish_reason is None:  # by a stop string, of which the engine knows nothing
            self._engine.abort(submitted.request_id, FinishReason.STOP)
        return delta

    def _abort_unfinished(self) -> None:
        for submitted in self._submitted:
            if not submitted.choice.is_done:
                self._engine.abort(submitted.request_id)


async def _merged(submitted: Sequence[SubmittedChoice]) -> AsyncGenerator[tuple[SubmittedChoice, _Events], None]:
    """The events of all choices as they arrive, until each has ended."""
    if len(submitted) == 1:
        async with aclosing(_events(submitted[0])) as arrivals:
            async for events in arrivals:
                yield submitted[0], events
        return
    queue: asyncio.Queue[tuple[SubmittedChoice, _Events] | Exception | None] = asyncio.Queue(maxsize=len(submitted))
    readers = [asyncio.create_task(_read_into(queue, one)) for one in submitted]
    try:
        num_open = len(readers)
        while num_open:
            arrival = await queue.get()
            if isinstance(arrival, Exception):
                raise arrival
            if arrival is None:
                num_open -= 1
            else:
                yield arrival
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _read_into(
    queue: asyncio.Queue[tuple[SubmittedChoice, _Events] | Exception | None], submitted: SubmittedChoice
) -> None:
    try:
        async with aclosing(_events(submitted)) as arrivals:
            async for events in arrivals:
                await queue.put((submitted, events))
        await queue.put(None)
    except Exception as error:  # a fault of ours: it must reach whoever reads the stream, not vanish in a task
        await queue.put(error)


async def _events(submitted: SubmittedChoice) -> AsyncGenerator[_Events, None]:
    """The events of one choice. Whatever the engine does, the last has a finish_reason."""
    try:
        async for events in submitted.tokens:
            yield events
            if submitted.choice.is_done or events[-1].finish_reason is not None:
                return
        error = "the engine ended this request without a reason"
    except TailraceError as engine_error:
        error = str(engine_error)
    yield (TokenEvent(submitted.request_id, None, finish_reason=FinishReason.ERROR, error=error),)
