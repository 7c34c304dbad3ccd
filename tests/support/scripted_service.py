"""A Service that answers from a script: deltas, errors, and gates at which it waits."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.errors import InvalidRequest, RequestError, UnavailableError
from tailrace.service.api import (
    CallDelta,
    ChoiceDelta,
    Generation,
    Journal,
    Milestones,
    ModelCard,
    Output,
    Prompt,
    SettledGeneration,
    TextLogprob,
    TextPrompt,
    Usage,
)
from tailrace.types import (
    Beginning,
    BlockTarget,
    Explanation,
    FinishReason,
    Invalidated,
    Level,
    MissReason,
    ModelTarget,
    PrefixReport,
    TenantTarget,
)

__all__ = ["MODEL", "ScriptedService", "ScriptedStream", "Step", "call", "finish", "thought", "token"]

MODEL = ModelCard("tiny", aliases=("tiny-latest",), created_s=1_700_000_000, max_model_tokens=512, vocab_size=1000)

EVICTED = PrefixReport(((Level.ENGINE, 16), (Level.HOST, 16)), MissReason.EVICTED, 2.5, "cmpl-7")

Step = ChoiceDelta | Exception | asyncio.Event
"""What comes next: text, a failure, or a wait until the event is set."""


def token(text: str, index: int = 0, logprobs: tuple[TextLogprob, ...] = ()) -> ChoiceDelta:
    return ChoiceDelta(index, text, token_ids=(1,), logprobs=logprobs)


def thought(text: str, index: int = 0, logprobs: tuple[TextLogprob, ...] = ()) -> ChoiceDelta:
    """A token of reasoning."""
    return ChoiceDelta(index, "", token_ids=(1,), logprobs=logprobs, reasoning=text)


def call(number: int, arguments: str = "", name: str = "", index: int = 0) -> ChoiceDelta:
    """A token of a call, which is its first if it has a name."""
    delta = CallDelta(number, arguments, f"call_{index}_{number}" if name else "", name)
    return ChoiceDelta(index, "", token_ids=(1,), calls=(delta,))


def finish(
    index: int = 0,
    reason: FinishReason = FinishReason.STOP,
    *,
    text: str = "",
    stop_reason: str | int | None = None,
    error: str | None = None,
) -> ChoiceDelta:
    return ChoiceDelta(index, text, finish_reason=reason, stop_reason=stop_reason, error=error)


@dataclass
class ScriptedStream:
    script: Sequence[Step]
    prompt_tokens: int = 7
    cached_tokens: int = 4
    num_tokens: int = 0
    num_reasoning_tokens: int = 0
    num_read: int = 0
    most_at_once: int = 128
    place: int = 0
    num_closed: int = 0
    closings: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    milestones: Milestones | None = None

    @property
    def usage(self) -> Usage:
        found = ((Level.ENGINE, 1), (Level.HOST, self.cached_tokens - 1))
        return Usage(
            self.prompt_tokens,
            self.num_tokens,
            self.cached_tokens,
            found,
            MissReason.EVICTED,
            self.num_reasoning_tokens,
        )

    async def take(self) -> Sequence[ChoiceDelta]:
        """What the script has before its next gate that is closed, or its next failure."""
        deltas: list[ChoiceDelta] = []
        while self.place < len(self.script) and len(deltas) < self.most_at_once:
            step = self.script[self.place]
            if deltas and (isinstance(step, Exception) or (isinstance(step, asyncio.Event) and not step.is_set())):
                break
            self.place += 1
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                self.num_tokens += len(step.token_ids)
                self.num_reasoning_tokens += len(step.token_ids) if step.reasoning else 0
                self.num_read += 1
                self._pass_milestone(step)
                deltas.append(step)
        return deltas

    def _pass_milestone(self, delta: ChoiceDelta) -> None:
        milestones = self.milestones
        if milestones is None or delta.index:
            return
        if milestones.text_s is None:
            now_s = milestones.received_s = milestones.text_s = time.monotonic()
            milestones.beginning = Beginning(now_s, now_s, now_s)
        if delta.finish_reason is not None:
            milestones.finish_reason = delta.finish_reason

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        while deltas := await self.take():
            for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        self.num_closed += 1
        self.closings.release()


@dataclass
class ScriptedService:
    """Every generation gets the script, or what `script_of` makes of it. `start_step` may delay or refuse the start.

    `most_at_once` deltas are there at once.
    """

    script: Sequence[Step] = (token("Hello"), token(" world"), finish())
    script_of: Callable[[Generation], Sequence[Step]] | None = None
    start_step: Exception | asyncio.Event | None = None
    most_at_once: int = 128
    is_ready: bool = True
    model: ModelCard = MODEL
    classes: ServiceClasses = STANDARD
    generations: list[Generation] = field(default_factory=list)
    streams: list[ScriptedStream] = field(default_factory=list)
    closings: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))  # one for each closed stream
    was_cancelled_at_start: bool = False
    prefix: PrefixReport = EVICTED
    names: tuple[bytes, ...] = (b"\x01" * 16, b"\x02" * 16)
    num_forgets: int = 1
    refusal: RequestError | None = None  # of a prompt to forget
    explained: list[tuple[Prompt, str]] = field(default_factory=list)
    invalidated: list[BlockTarget | TenantTarget | ModelTarget] = field(default_factory=list)
    invalidated_prompts: list[tuple[Prompt, str]] = field(default_factory=list)

    async def start(self, generation: Generation) -> ScriptedStream:
        if not self.is_ready:
            raise UnavailableError("not ready")
        self.generations.append(generation)
        if isinstance(self.start_step, Exception):
            raise self.start_step
        if self.start_step is not None:
            await self._wait(self.start_step)
        script = self.script_of(generation) if self.script_of else self.script
        milestones = generation.milestones
        if milestones is not None:
            milestones.tokenised_s = milestones.submitted_s = time.monotonic()
        stream = ScriptedStream(script, most_at_once=self.most_at_once, closings=self.closings, milestones=milestones)
        self.streams.append(stream)
        return stream

    async def start_journaled(self, generation: Generation, journal: Journal) -> ScriptedStream:
        return await self.start(generation)

    async def resume(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal,
        milestones: Milestones | None = None,
    ) -> ScriptedStream:
        raise UnavailableError("nothing is kept of a script")

    async def _wait(self, gate: asyncio.Event) -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.was_cancelled_at_start = True
            raise

    @property
    def generation(self) -> Generation:
        """The only one."""
        (generation,) = self.generations
        return generation

    @property
    def stream(self) -> ScriptedStream:
        """The only one."""
        (stream,) = self.streams
        return stream

    async def explain(self, prompt: Prompt, cache_salt: str) -> Explanation:
        """Of each prompt 32 tokens are cached, and the next block was evicted."""
        self.explained.append((prompt, cache_salt))
        return Explanation(1, 40, self.prefix, 16, self.names, b"\xab" * 16)

    async def invalidate(self, target: BlockTarget | TenantTarget | ModelTarget) -> Invalidated:
        self.invalidated.append(target)
        return Invalidated(1, self.num_forgets, ((Level.ENGINE, 3), (Level.HOST, None)), 7, 16, 0.0015)

    async def invalidate_prompt(self, prompt: Prompt, cache_salt: str) -> Invalidated:
        if self.refusal is not None:
            raise self.refusal
        self.invalidated_prompts.append((prompt, cache_salt))
        return Invalidated(1, self.num_forgets, ((Level.ENGINE, 3), (Level.HOST, None)), 7, 16, 0.0015)

    def tokenize(self, prompt: Prompt) -> list[int]:
        """One id per character."""
        text = prompt.text if isinstance(prompt, TextPrompt) else str(prompt)
        return [ord(character) for character in text]

    def token_text(self, token_id: int) -> str:
        return chr(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        if any(token_id >= self.model.vocab_size for token_id in token_ids):
            raise InvalidRequest("no such token", param="tokens")
        return "".join(map(chr, token_ids))
