"""The step loop over levels below it: it sleeps while they look, and not for ever."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.records import LoadRecord, Record
from tailrace.runtime.kv_store import KvStore, KvStoreConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import Beginning, FinishReason, Level, MissReason, Request, SamplingParams, TokenEvent
from tests.support.memory_level import MemoryLevel

WAIT_S = 20.0
KV = KvCacheConfig(num_blocks=16, block_tokens=4, root_parts=("m",))
BOUNDS = SchedulerConfig(budget_tokens=8, max_running=2, max_model_tokens=32, eos_ids=())


class Runner:
    """Samples 7, whatever it is asked; a broken one fails."""

    is_broken = False

    def run(self, plan: StepPlan) -> StepResult:
        if self.is_broken:
            raise RuntimeError("the device is gone")
        tokens = [SampledToken(part.request_id, 7) for part in plan.slices if part.is_sampled]
        return StepResult(plan.step_id, tuple(tokens))


class Loop:
    """A running step loop over one level."""

    def __init__(self, level: MemoryLevel, deadline_s: float) -> None:
        self.ended = queue.SimpleQueue[TokenEvent]()
        self.beginnings = queue.SimpleQueue[Beginning]()
        self.records = queue.SimpleQueue[Record]()
        self.runner = Runner()
        self.intake = Intake(IntakeConfig(max_queued=4, max_queued_tokens=64, max_model_tokens=32))
        store = KvStore(
            [level],
            np.zeros((KV.num_blocks, 64), np.uint8),
            self.intake.wake,
            Forget(Scope.FINGERPRINT, b""),
            config=KvStoreConfig(deadlines_s={level.level: deadline_s}, close_s=0.05),
        )
        self.engine = Engine(
            Scheduler(BOUNDS, KvCache(KV), store),
            self.runner,
            self.intake,
            publish=self._publish,
            reply=lambda _: None,
            emit=self.records.put,
        )
        self.thread = threading.Thread(target=self.engine.run_forever)

    def _publish(self, events: Sequence[TokenEvent]) -> None:
        for event in events:
            if event.beginning is not None:
                self.beginnings.put(event.beginning)
            if event.finish_reason is not None:
                self.ended.put(event)

    def submit(self, name: str) -> None:
        self.intake.submit(Request(name, tuple(range(9)), SamplingParams(3)))

    def end_of(self, name: str) -> TokenEvent:
        event = self.ended.get(timeout=WAIT_S)
        assert event.request_id == name
        return event


@contextmanager
def looping(level: MemoryLevel, deadline_s: float = WAIT_S) -> Iterator[Loop]:
    loop = Loop(level, deadline_s)
    loop.thread.start()
    try:
        yield loop
    finally:
        loop.intake.close()
        loop.thread.join(WAIT_S)
        assert not loop.thread.is_alive()


@pytest.fixture
def level() -> MemoryLevel:
    return MemoryLevel(Level.HOST)


def test_a_request_goes_on_when_the_level_has_answered(level: MemoryLevel) -> None:
    gate = level.hold("contain")
    with looping(level) as loop:
        loop.submit("a")
        gate.await_arrival()
        assert loop.ended.empty()
        gate.open()
        assert loop.end_of("a").finish_reason is FinishReason.LENGTH


def test_the_time_that_a_level_took_is_a_part_of_the_queue(level: MemoryLevel) -> None:
    gate = level.hold("contain")
    with looping(level) as loop:
        loop.submit("a")
        gate.await_arrival()
        gate.open()
        loop.end_of("a")
    beginning = loop.beginnings.get_nowait()
    assert 0.0 < beginning.fetch_s <= beginning.started_s - beginning.taken_s


def test_a_request_does_not_wait_for_a_level_for_ever(level: MemoryLevel) -> None:
    gate = level.hold("contain")
    with looping(level, deadline_s=0.01) as loop:
        loop.submit("a")
        event = loop.end_of("a")
        assert event.finish_reason is FinishReason.LENGTH
        assert event.prefix is not None
        assert event.prefix.reason is MissReason.LEVEL_DOWN
    gate.open()
    assert level.is_closed.wait(WAIT_S)


def test_a_request_that_waits_for_a_level_can_be_aborted(level: MemoryLevel) -> None:
    gate = level.hold("contain")
    with looping(level) as loop:
        loop.submit("a")
        gate.await_arrival()
        loop.intake.abort("a")
        assert loop.end_of("a").finish_reason is FinishReason.ABORT
        gate.open()
        loop.submit("b")
        assert loop.end_of("b").finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_levels_are_closed_with_the_loop(level: MemoryLevel, is_broken: bool) -> None:
    with looping(level) as loop:
        loop.runner.is_broken = is_broken
        loop.submit("a")
        loop.end_of("a")
    assert level.is_closed.is_set()


def test_at_rest_nothing_is_said_to_be_in_use(level: MemoryLevel) -> None:
    with looping(level) as loop:
        loop.submit("a")
        loop.end_of("a")
        while True:
            record = loop.records.get(timeout=WAIT_S)
            if isinstance(record, LoadRecord) and record.num_blocks_used == 0:
                break
    assert len(level.blocks) == 2
