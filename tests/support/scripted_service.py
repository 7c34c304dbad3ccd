"""A Service that answers from a script: deltas, errors, and gates at which it waits."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from tailrace.errors import UnavailableError
from tailrace.service.api import ChoiceDelta, Generation, ModelCard, Prompt, TextLogprob, TextPrompt, Usage
from tailrace.types import FinishReason

__all__ = ["MODEL", "ScriptedService", "ScriptedStream", "Step", "finish", "token"]

MODEL = ModelCard("tiny", aliases=("tiny-latest",), created_s=1_700_000_000, max_model_tokens=512, vocab_size=1000)

Step = ChoiceDelta | Exception | asyncio.Event
"""What comes next: text, a failure, or a wait until the event is set."""


def token(text: str, index: int = 0, logprobs: tuple[TextLogprob, ...] = ()) -> ChoiceDelta:
    return ChoiceDelta(index, text, token_ids=(1,), logprobs=logprobs)


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
    num_read: int = 0
    num_closed: int = 0
    closings: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt_tokens, self.num_tokens, self.cached_tokens)

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        for step in self.script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
                continue
            self.num_tokens += len(step.token_ids)
            self.num_read += 1
            yield step

    async def aclose(self) -> None:
        self.num_closed += 1
        self.closings.release()


@dataclass
class ScriptedService:
    """Every generation gets the script, or what `script_of` makes of it. `start_step` may delay or refuse the start."""

    script: Sequence[Step] = (token("Hello"), token(" world"), finish())
    script_of: Callable[[Generation], Sequence[Step]] | None = None
    start_step: Exception | asyncio.Event | None = None
    is_ready: bool = True
    model: ModelCard = MODEL
    generations: list[Generation] = field(default_factory=list)
    streams: list[ScriptedStream] = field(default_factory=list)
    closings: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))  # one for each closed stream
    was_cancelled_at_start: bool = False

    async def start(self, generation: Generation) -> ScriptedStream:
        if not self.is_ready:
            raise UnavailableError("not ready")
        self.generations.append(generation)
        if isinstance(self.start_step, Exception):
            raise self.start_step
        if self.start_step is not None:
            await self._wait(self.start_step)
        script = self.script_of(generation) if self.script_of else self.script
        stream = ScriptedStream(script, closings=self.closings)
        self.streams.append(stream)
        return stream

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

    def tokenize(self, prompt: Prompt) -> list[int]:
        """One id per character."""
        text = prompt.text if isinstance(prompt, TextPrompt) else str(prompt)
        return [ord(character) for character in text]

    def token_text(self, token_id: int) -> str:
        return chr(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))
