"""A few small steps before the first request: from how long they take, the step-time model knows this machine.

They leave nothing behind: no block has a name, no request a record, and the memory of the KV blocks is given back.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

from tailrace.ops.api import Ceilings, Limits
from tailrace.scheduler.plan import SequenceEntry, SequenceSlice, StepPlan, StepResult, StepSize
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.types import SamplingParams

__all__ = ["Reads", "calibrated", "guessed"]

LIMIT_S = 2.0
_GUESSED_SLOWNESS = 2.0
_CHUNK_TOKENS = 32
_ROWS = (8, 32)
_DEEP_TOKENS = 512
_TIMES_ALONE = 3
_TOKEN_ID = 0
_SAMPLING = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)

Shape = tuple[tuple[int, int], ...]  # of each sequence: how many tokens are computed, and how many were before


class _Runner(Protocol):
    def run(self, plan: StepPlan) -> StepResult: ...


def calibrated(
    runner: _Runner, limits: Limits, *, limit_s: float = LIMIT_S, clock: Callable[[], float] = time.monotonic
) -> StepTimeModel:
    """A model that has observed a few small steps.

    Those of one row are run several times, and the fastest counts: the first makes the machine warm, and how two of
    them differ is what a row's past costs, of which a step of many rows has many times as much. The rest is left out
    once as much again as the latest step took would go beyond `limit_s`; of a very slow model, at least one step is
    observed.
    """
    times_s: dict[StepSize, float] = {}
    steps = _Steps(runner, limits)
    started_s = clock()
    latest_s = 0.0
    for shape in chain.from_iterable(repeat(shape, _times(shape)) for shape in _shapes(limits)):
        before_s = clock()
        if before_s + 2.0 * latest_s > started_s + limit_s:
            break
        size = steps.run(shape)
        latest_s = clock() - before_s
        times_s[size] = min(latest_s, times_s.get(size, latest_s))
    steps.clear()
    model = StepTimeModel(limits.max_tokens)
    for size, took_s in times_s.items():
        model.observe(size, took_s)
    return model


def _times(shape: Shape) -> int:
    return _TIMES_ALONE if sum(count for count, _ in shape) == 1 else 1


def _blocks(limits: Limits) -> range:
    """Those that are used, whatever a server lets run at a time: one a row, and enough for the longer past."""
    return range(min(limits.num_blocks, max(*_ROWS, -(-_DEEP_TOKENS // limits.block_tokens))))


def _shapes(limits: Limits) -> Iterator[Shape]:
    """Rows alone, with a short and a longer past, rows side by side, and chunks, with a past and without one."""
    num_blocks = len(_blocks(limits))
    deep = min(_DEEP_TOKENS, num_blocks * limits.block_tokens, limits.max_model_tokens - 1)
    chunk = min(_CHUNK_TOKENS, deep, limits.max_tokens)
    yield ((1, 0),)
    yield ((1, deep - 1),)
    for num_rows in _ROWS:
        yield ((1, 0),) * min(num_rows, limits.max_sequences, num_blocks, limits.max_tokens)
    yield ((chunk, deep - chunk),)
    yield ((chunk, 0),)


class _Steps:
    """Runs one step after the other, each with sequences of its own, over the same blocks."""

    def __init__(self, runner: _Runner, limits: Limits) -> None:
        self._runner = runner
        self._limits = limits
        self._blocks = _blocks(limits)
        self._left: tuple[str, ...] = ()
        self._num_steps = 0
        runner.run(StepPlan(0, (), (), (), (), committed=(self._blocks,)))

    def run(self, shape: Shape) -> StepSize:
        self._num_steps += 1
        slices = self._slices(shape)
        entered = tuple(
            SequenceEntry(part.request_id, [_TOKEN_ID] * (part.start + part.num_tokens), 1, _SAMPLING)
            for part in slices
        )
        plan = StepPlan(self._num_steps, self._left, entered, (), slices)
        self._left = tuple(part.request_id for part in slices)
        self._runner.run(plan)
        return plan.size

    def clear(self) -> None:
        self._runner.run(StepPlan(self._num_steps + 1, self._left, (), (), (), released=(self._blocks,)))

    def _slices(self, shape: Shape) -> tuple[SequenceSlice, ...]:
        slices, end = [], 0
        for number, (count, start) in enumerate(shape):
            num_blocks = -(-(start + count) // self._limits.block_tokens)
            blocks = tuple(range(end, end + num_blocks))
            end += num_blocks
            slices.append(SequenceSlice(f"{self._num_steps}.{number}", start, count, True, blocks))
        return tuple(slices)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a model's steps read and multiply."""

    total_bytes: int  # of all weights
    active_share: float  # of them, that a step of one row reads
    active_parameters: int  # that a row is multiplied with


def guessed(ceilings: Ceilings, reads: Reads, limits: Limits) -> StepTimeModel:
    """A model that has observed nothing: steps take as long as reading and multiplying do, and as long again.

    Real steps correct it, and the targets of classes, which follow from it, become tighter with it, never looser.
    """
    model = StepTimeModel(limits.max_tokens)
    for num_rows in sorted({1, *_ROWS, limits.max_tokens}):
        num_bytes = reads.total_bytes * min(reads.active_share * num_rows, 1.0)
        read_s = num_bytes / ceilings.read_bytes_per_s
        multiply_s = 2.0 * reads.active_parameters * num_rows / ceilings.dot_ops_per_s
        size = StepSize(num_rows, min(num_rows, _ROWS[-1]), 0)
        model.observe(size, _GUESSED_SLOWNESS * max(read_s, multiply_s))
    return model
