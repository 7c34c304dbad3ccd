"""Prompts and streams through the engine, scheduler and all, in this process: what its own records say of them."""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tailrace.app import LoadedModel, start_engine
from tailrace.config import EngineConfig
from tailrace.engine.client import TokenStream
from tailrace.engine.local import LocalEngine
from tailrace.errors import EngineError, SetupError
from tailrace.records import Record, RequestRecord, StepRecord
from tailrace.types import FinishReason, Request, SamplingParams

__all__ = ["MIN_OUTPUT_TOKENS", "SteadyDecode", "Streams", "Workload", "run_workload"]

MIN_OUTPUT_TOKENS = 8  # fewer leave no steps in which nothing but decode happens

Say = Callable[[str], None]
ReadingRate = Callable[[], float | None]


@dataclass(frozen=True, slots=True)
class Workload:
    """`num_prompts` prompts one after the other; then the first by itself is continued, then all at a time; again."""

    num_prompts: int = 8
    prompt_tokens: int = 512
    output_tokens: int = 64
    num_rounds: int = 3

    @property
    def max_model_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __post_init__(self) -> None:
        if self.output_tokens < MIN_OUTPUT_TOKENS:
            raise SetupError(f"{self.output_tokens} tokens a stream say nothing: take {MIN_OUTPUT_TOKENS} or more")


@dataclass(frozen=True, slots=True)
class SteadyDecode:
    """Steps in which `num_streams` streams compute a token each and nothing else happens."""

    num_streams: int
    context_tokens: float  # that a stream sees, on average
    periods_s: Sequence[float]  # from the start of such a step to the start of the next: between tokens
    read_bytes_per_s: float | None  # how fast memory was read right before and after, on average; None: not known


@dataclass(frozen=True, slots=True)
class Streams:
    """What was measured: `prefills_s` from the start of a prompt to its first token, each alone."""

    prefills_s: Sequence[float]
    decodes: Sequence[SteadyDecode]


def run_workload(
    model: LoadedModel, config: EngineConfig, workload: Workload, *, rate: ReadingRate, say: Say
) -> Streams:
    """Run it all. Prompts are random and no two alike; later parts find them in the prefix cache.

    `rate` is asked around all streams: neighbours on the machine halve what it reads from one moment to the next. `say`
    is told what is being measured. Raises EngineError when the engine fails.
    """
    return asyncio.run(_run(model, config, workload, rate, say))


async def _run(model: LoadedModel, config: EngineConfig, workload: Workload, rate: ReadingRate, say: Say) -> Streams:
    records: list[Record] = []
    client = _Client(start_engine(model, config, emit=records.append, on_failure=lambda: None))
    prompts = [_prompt(model, workload, number) for number in range(workload.num_prompts)]
    sizes = sorted({1, len(prompts)}) * workload.num_rounds
    marks_s: list[float] = []  # when each number of streams began
    rates: list[float | None] = []  # before each, and after the last
    try:
        for number, prompt in enumerate(prompts, start=1):
            say(f"prompt {number} of {len(prompts)}, {workload.prompt_tokens} tokens")
            await client.complete([prompt], 1)
        for size in sizes:
            rates.append(rate())
            marks_s.append(time.monotonic())
            say(f"streams of {workload.output_tokens} tokens, {size} at a time")
            await client.complete(prompts[:size], workload.output_tokens)
        rates.append(rate())
    finally:
        client.engine.close()  # from here on all records are there
    parts = zip(sizes, pairwise([*marks_s, math.inf]), pairwise(rates), strict=True)
    return Streams(
        prefills_s=list(_prefill_s(records, marks_s[0])),
        decodes=[
            _steady(_steps(records, begin_s, end_s), size, _average(*around))
            for size, (begin_s, end_s), around in parts
        ],
    )


def _average(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else (before + after) / 2


def _steps(records: Sequence[Record], begin_s: float, end_s: float) -> list[StepRecord]:
    return [record for record in records if isinstance(record, StepRecord) and begin_s <= record.started_s < end_s]


def _prompt(model: LoadedModel, workload: Workload, number: int) -> list[int]:
    ids = range(model.checkpoint.config.vocab_size)
    return random.Random(f"prompt {number}").choices(ids, k=workload.prompt_tokens)


@dataclass(slots=True)
class _Client:
    """Submits requests to an engine and reads their streams, as the server does."""

    engine: LocalEngine
    num_requests: int = field(default=0)

    async def complete(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        sampling = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        await asyncio.gather(*map(_read, [self._submit(prompt, sampling) for prompt in prompts]))

    def _submit(self, prompt: Sequence[int], sampling: SamplingParams) -> TokenStream:
        self.num_requests += 1
        return self.engine.submit(Request(f"measured {self.num_requests}", prompt, sampling))


async def _read(stream: TokenStream) -> None:
    async for events in stream:
        if events[-1].finish_reason is FinishReason.ERROR:
            raise EngineError(events[-1].error or "the engine ended a stream without a reason")


def _prefill_s(records: Sequence[Record], end_s: float) -> Iterator[float]:
    """From the start of each prompt to its token, of those that came before `end_s`."""
    for record in records:
        if isinstance(record, RequestRecord) and record.finished_s < end_s:
            assert record.started_s is not None
            assert record.first_token_s is not None
            yield record.first_token_s - record.started_s


def _steady(steps: Sequence[StepRecord], num_streams: int, read_bytes_per_s: float | None) -> SteadyDecode:
    pairs = list(_steady_pairs(steps, num_streams))
    if not pairs:
        raise SetupError(f"no two steps in a row had just {num_streams} streams: let them run for more tokens")
    contexts = [step.num_context_tokens / num_streams for step, _ in pairs]
    periods = [following.started_s - step.started_s for step, following in pairs]
    return SteadyDecode(num_streams, sum(contexts) / len(contexts), periods, read_bytes_per_s)


def _steady_pairs(steps: Sequence[StepRecord], num_streams: int) -> Iterator[tuple[StepRecord, StepRecord]]:
    for step, following in pairwise(steps):
        if all(one.num_tokens == one.num_sampled == one.num_running == num_streams for one in (step, following)):
            yield step, following
