"""Steady decode leaves nothing behind a token but its id, so that neither collector nor allocator slows it down."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import cast

import numpy as np

from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.ops.api import MAX_TOP_LOGPROBS, Executable, SampleOutputs, SamplingInputs, StepInputs
from tailrace.runtime.runner import Runner
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import OpTime, Request, SamplingParams
from tests.support.steps import limits

NUM_STREAMS = 64
MAX_TOKENS = 2048
WINDOW_STEPS = 1060  # until the longest window is full: of 256 errors, one in four steps
NUM_STEPS = 256
STEP_S = 0.0125
TOKEN_BYTES = 4 * 17 / 16  # a buffer takes a sixteenth more than it needs


class NoDevice:
    """An executable that draws one token for ever."""

    is_whole = True

    def __init__(self) -> None:
        self._drawn = SampleOutputs(
            np.full(NUM_STREAMS, 70_000, np.int32),
            np.zeros(NUM_STREAMS, np.float32),
            np.zeros((NUM_STREAMS, MAX_TOP_LOGPROBS), np.int32),
            np.zeros((NUM_STREAMS, MAX_TOP_LOGPROBS), np.float32),
        )

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        drawn, rows = self._drawn, len(step.sample_rows)
        return SampleOutputs(
            drawn.token_ids[:rows], drawn.logprobs[:rows], drawn.top_ids[:rows], drawn.top_logprobs[:rows]
        )

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        return self.run(step, sampling), ()

    def commit(self, blocks: range) -> None:
        pass

    def populate(self, blocks: range) -> None:
        pass


def engine_in_steady_decode(block_tokens: int) -> Engine:
    """All streams have begun, and go on for longer than any test."""
    bounds = limits(max_tokens=1024, max_sequences=NUM_STREAMS, max_model_tokens=MAX_TOKENS, block_tokens=block_tokens)
    ticks = count()
    intake = Intake(IntakeConfig(2 * NUM_STREAMS, 1_000_000, MAX_TOKENS), clock=lambda: 0.0)
    engine = Engine(
        Scheduler(
            SchedulerConfig(budget_tokens=1024, max_running=NUM_STREAMS, max_model_tokens=MAX_TOKENS, eos_ids=()),
            KvCache(KvCacheConfig(bounds.num_blocks, block_tokens, ("m",))),
        ),
        Runner(cast("Executable", NoDevice()), bounds, eos_ids=()),
        intake,
        publish=lambda events: None,
        reply=lambda answer: None,
        emit=Metrics(model_name="m", version="0").record,
        clock=lambda: next(ticks) * STEP_S / 4,
    )
    for number in range(NUM_STREAMS):
        prompt = range(1000 * number, 1000 * number + 8)
        intake.submit(Request(str(number), prompt, SamplingParams(MAX_TOKENS, temperature=0.0)))
    run(engine, NUM_STREAMS)
    return engine


def run(engine: Engine, num_steps: int) -> None:
    for _ in range(num_steps):
        engine.drain_intake()
        assert engine.step()


@contextmanager
def traced() -> Iterator[None]:
    """Without collections, which would empty the interpreter's own lists of spare objects."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


def left_behind(engine: Engine, warmup_steps: int) -> tuple[int, int]:
    """Bytes, and places in memory, that NUM_STEPS leave behind after so many others."""
    with traced():
        run(engine, warmup_steps)  # until all that is kept of late was kept under these eyes
        before = tracemalloc.take_snapshot()
        run(engine, NUM_STEPS)
        after = tracemalloc.take_snapshot()
    own = [tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__)]
    changes = after.filter_traces(own).compare_to(before.filter_traces(own), "filename")
    return sum(change.size_diff for change in changes), sum(change.count_diff for change in changes)


def test_a_token_leaves_its_id_behind_and_no_object() -> None:
    num_bytes, num_objects = left_behind(engine_in_steady_decode(block_tokens=MAX_TOKENS), WINDOW_STEPS)
    num_tokens = NUM_STEPS * NUM_STREAMS
    assert num_bytes / num_tokens < TOKEN_BYTES + 0.5
    assert num_objects < NUM_STREAMS


def test_a_sealed_block_leaves_its_name_and_its_tokens_behind() -> None:
    num_bytes, _ = left_behind(engine_in_steady_decode(block_tokens=16), NUM_STEPS)
    num_blocks = NUM_STEPS * NUM_STREAMS // 16
    assert num_bytes / num_blocks < 16 * TOKEN_BYTES + 750


def test_the_collector_finds_nothing_that_steps_made() -> None:
    engine = engine_in_steady_decode(block_tokens=16)
    gc.collect()
    gc.disable()
    try:
        run(engine, NUM_STEPS)
        assert gc.collect() == 0
    finally:
        gc.enable()
