"""The answer to one request while it is made: the choices' events as they arrive, turned into deltas."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tailrace.engine.client import EngineClient, ObservePieces, TokenFeed
from tailrace.service.api import OBSERVE_ONE_IN, ChoiceDelta, Milestones, Usage
from tailrace.service.choice import Choice
from tailrace.service.token_choice import TokenChoice
from tailrace.types import FinishReason, TokenEvent

__all__ = ["SubmittedChoice", "TextStream"]


@dataclass(frozen=True, slots=True)
class SubmittedChoice:
    """A choice and the engine request that computes it."""

    choice: Choice | TokenChoice
    request_id: str
    tokens: TokenFeed


class TextStream:
    """A GenerationStream. One reader; leaving it early or `aclose` aborts what the engine still computes.

    Raises Overloaded when the engine turns one of its choices away, which ends all of them.
    """

    def __init__(
        self,
        engine: EngineClient,
        submitted: Sequence[SubmittedChoice],
        *,
        prompt_tokens: int,
        echoed: str = "",
        milestones: Milestones | None = None,
        observe_text: ObservePieces | None = None,
    ) -> None:
        self._engine = engine
        self._submitted = submitted
        self._unaborted = submitted
        self._prompt_tokens = prompt_tokens
        self._echoed = echoed
        self._num_open = len(submitted)
        self._failure: Exception | None = None
        self._arrived: list[SubmittedChoice] = []
        self._waiter: asyncio.Future[None] | None = None
        self._milestones = milestones
        self._unbegun = None if milestones is None else submitted[0]  # until there is text of it
        self._observe_text = observe_text
        self._num_unobserved = 0
        for each in submitted:
            each.tokens.watch(partial(self._wake, each))

    @property
    def prompt_tokens(self) -> int:
        return self._prompt_tokens

    @property
    def usage(self) -> Usage:
        """The prompt counts once, as the first choice met it: the others find it in the cache by then."""
        choices = [submitted.choice for submitted in self._submitted]
        usage = Usage.of_prompt(self._prompt_tokens, sum(choice.num_tokens for choice in choices), choices[0].prefix)
        return replace(usage, reasoning_tokens=sum(choice.num_reasoning_tokens for choice in choices))

    async def take(self) -> Sequence[ChoiceDelta]:
        """All deltas that are there, at least one; none once all choices have ended."""
        try:
            while self._num_open:
                if deltas := self._collect():
                    self._num_unobserved += 1
                    if self._num_unobserved == OBSERVE_ONE_IN:
                        self._observe(deltas)
                    return deltas
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        except Exception:
            await self.aclose()
            raise
        return ()

    async def __aiter__(self) -> AsyncGenerator[ChoiceDelta, None]:
        try:
            while deltas := await self.take():
                for delta in deltas:
                    yield delta
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Aborts what is not done. A reader that waits elsewhere is woken by the end of its events."""
        left, self._unaborted = self._unaborted, ()
        for submitted in left:
            if not submitted.choice.is_done:
                self._engine.abort(submitted.request_id)

    def _wake(self, submitted: SubmittedChoice) -> None:
        self._arrived.append(submitted)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _collect(self) -> Sequence[ChoiceDelta]:
        """What has arrived, as deltas. What ends the answer early is raised once all before it is out."""
        deltas: list[ChoiceDelta] = []
        arrived, self._arrived = self._arrived, []
        try:
            if self._failure is not None:
                raise self._failure
            for submitted in arrived:
                self._feed(submitted, submitted.tokens.take(), deltas)
        except Exception as error:
            self._failure = error
            if not deltas:
                raise
        return self._with_echoes(deltas) if self._echoed else deltas

    def _with_echoes(self, deltas: list[ChoiceDelta]) -> list[ChoiceDelta]:
        """The first deltas come after those of the prompt: no earlier, since until then the answer may be a refusal."""
        if not deltas:
            return deltas
        echoes = [ChoiceDelta(each.choice.index, self._echoed) for each in self._submitted]
        self._echoed = ""
        return echoes + deltas

    def _feed(self, submitted: SubmittedChoice, events: Sequence[TokenEvent], deltas: list[ChoiceDelta]) -> None:
        if submitted.choice.is_done:
            return
        if (refusal := events[-1].refusal) is not None:
            raise refusal.error
        made = submitted.choice.feed(events)
        if submitted is self._unbegun:
            self._note_beginning(events[0], made)
        deltas += made
        if made and made[-1].finish_reason is not None:
            self._num_open -= 1
            self._note_end(submitted, made[-1].finish_reason)
            if events[-1].finish_reason is None:  # by a stop string, of which the engine knows nothing
                self._engine.abort(submitted.request_id, FinishReason.STOP)

    def _note_beginning(self, event: TokenEvent, made: Sequence[ChoiceDelta]) -> None:
        """Of the first choice a token is here, and perhaps text. Another engine may begin with it anew before that."""
        milestones = self._milestones
        assert milestones is not None, "nobody follows it"
        if milestones.beginning is None:
            milestones.beginning, milestones.received_s = event.beginning, self._engine.received_s
        if made and milestones.beginning is not None:
            milestones.text_s = time.monotonic()
            self._unbegun = None

    def _note_end(self, submitted: SubmittedChoice, reason: FinishReason) -> None:
        if self._milestones is not None and submitted is self._submitted[0]:
            self._milestones.finish_reason = reason

    def _observe(self, deltas: Sequence[ChoiceDelta]) -> None:
        """Tell how long it took from when the latest tokens were here until they were text."""
        self._num_unobserved = 0
        if self._observe_text is not None:
            num_tokens = sum([len(delta.token_ids) for delta in deltas])
            self._observe_text(time.monotonic() - self._engine.received_s, num_tokens)
