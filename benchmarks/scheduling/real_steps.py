"""Steps of a real model that are made up: any rows at any contexts, without the requests that would lead there."""

import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tailrace.loading import LoadedModel
from tailrace.runtime.runner import Runner
from tailrace.scheduler.plan import SequenceEntry, SequenceSlice, StepPlan, StepSize
from tailrace.types import SamplingParams

__all__ = ["Part", "RealSteps", "Room", "Shape", "grid", "traffic"]

_SAMPLING = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
_MAX_TOKEN_ID = 256  # each vocabulary has as many
_BLOCK_TOKENS = 16  # each sequence has a last block that is not full
_MAX_CONTEXT = 1_900  # of streams: then they end


class Part(NamedTuple):
    """Of one sequence, `num_tokens` tokens behind `start` others."""

    start: int
    num_tokens: int
    is_sampled: bool


Shape = Sequence[Part]


class Room(NamedTuple):
    num_tokens: int  # in the KV pool
    max_model_tokens: int

    def holds(self, shape: Shape) -> bool:
        num_tokens = sum(part.start + part.num_tokens + _BLOCK_TOKENS for part in shape)
        return num_tokens <= self.num_tokens and max(sum(part[:2]) for part in shape) <= self.max_model_tokens


class RealSteps:
    """Runs shapes on a model that no engine runs on. Keys and values of what was not computed are those of before."""

    def __init__(self, model: LoadedModel) -> None:
        self._limits = model.limits
        self._runner = Runner(model.executable, model.limits, ())
        self._step_id = 0
        self._left: tuple[str, ...] = ()
        self._token_ids = [number % _MAX_TOKEN_ID for number in range(model.limits.max_model_tokens)]
        self._runner.run(StepPlan(0, (), (), (), (), committed=(range(model.limits.num_blocks),)))

    @property
    def room(self) -> "Room":
        limits = self._limits
        return Room(limits.num_blocks * limits.block_tokens, limits.max_model_tokens)

    def run(self, shape: Shape) -> tuple[StepSize, float]:
        """The size of the step, and seconds from plan to result."""
        plan = self._plan(shape)
        started_s = time.monotonic()
        self._runner.run(plan)
        return plan.size, time.monotonic() - started_s

    def _plan(self, shape: Shape) -> StepPlan:
        self._step_id += 1
        entered, slices, end = [], [], 0
        for number, (start, count, is_sampled) in enumerate(shape):
            name = f"{self._step_id}.{number}"
            num_blocks = -(-(start + count) // self._limits.block_tokens)
            entered.append(SequenceEntry(name, self._token_ids[: start + count], 1, _SAMPLING))
            slices.append(SequenceSlice(name, start, count, is_sampled, tuple(range(end, end + num_blocks))))
            end += num_blocks
        assert end <= self._limits.num_blocks, "the KV pool is too small for these contexts"
        left, self._left = self._left, tuple(part.request_id for part in slices)
        return StepPlan(self._step_id, left, tuple(entered), (), tuple(slices))


def decodes(num_streams: int, context: int) -> list[Part]:
    """Rows alone; their contexts are not quite the same."""
    return [Part(context + number % 7, 1, True) for number in range(num_streams)]


def grid(room: Room) -> list[Shape]:
    """Decodes, chunks and both, of all regimes, as far as there is room."""
    shapes: list[Shape] = []
    for num_streams in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        shapes += [decodes(num_streams, context) for context in (50, 300, 1_000, 3_900)]
    for count in (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256):
        shapes += [[Part(start, count, False)] for start in (0, 512, 2_000) if count * start < 300_000]
    for num_streams, context in ((1, 300), (8, 300), (16, 300), (32, 300), (8, 1_500)):
        for count, start in ((8, 0), (16, 1_000), (32, 0), (32, 1_000), (64, 0), (64, 1_000), (128, 0)):
            shapes.append([*decodes(num_streams, context), Part(start, count, False)])
    return [shape for shape in shapes if room.holds(shape)]


def traffic(rng: random.Random, room: Room, max_streams: int = 24) -> Iterator[Shape]:
    """Streams that come and go and grow, one prompt after the other beside them, for ever."""
    contexts = [rng.randrange(20, 800) for _ in range(max_streams // 2)]
    while True:
        length = rng.choice((60, 200, 600, 1_500))
        for start in range(0, length, 32):
            yield [*(Part(context, 1, True) for context in contexts), Part(start, min(32, length - start), False)]
            contexts = [context + 1 for context in contexts]
        contexts = [context for context in contexts if context < _MAX_CONTEXT] + [length]
        for _ in range(rng.randrange(30)):
            yield [Part(context, 1, True) for context in contexts]
            contexts = [context + 1 for context in contexts]
        while len(contexts) > 1 and (
            len(contexts) >= max_streams or sum(contexts) > room.num_tokens // 2 or rng.random() < 0.5
        ):
            contexts.pop(rng.randrange(len(contexts)))
