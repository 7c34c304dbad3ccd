"""Random worlds of classes, own targets and limits, on machines of any speed: each request has one honest end."""

import math
import random
from dataclasses import replace

import pytest

from tailrace.classes import STANDARD, ServiceClass, ServiceClasses
from tailrace.errors import Overloaded
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import FinishReason, Request
from tests.support.simulation import SimulatedEngine, make_request

ONE = ServiceClasses((ServiceClass("only", 1.0, ttft_s=0.5, itl_s=0.05, min_share=0.0, queue_ttl_s=5.0),), "only")
STEPS_S = {
    "still": (0.0,),
    "even": (0.01,),
    "uneven": (1e-4, 1e-3, 1e-2, 1e-1),
    "held up": (0.0, 1e-9, 0.01, 0.01, 0.01, 3_600.0),
}


class World:
    """An engine whose steps take what is drawn for them, and those who come and leave at any moment."""

    def __init__(self, source: random.Random, steps_s: tuple[float, ...]) -> None:
        self.source = source
        self.steps_s = steps_s
        self.told_s: list[float] = []  # when to come back
        max_running = source.choice([1, 2, 4, 16])
        config = SchedulerConfig(
            budget_tokens=source.choice([max_running, max_running + 7, 64]),
            max_running=max_running,
            max_model_tokens=60,
            eos_ids=(),
            chunk_tokens=source.choice([None, None, 5]),
            classes=source.choice([ONE, STANDARD]),
            target_scale=source.choice([1.0, 20.0]),
        )
        kv = KvCacheConfig(source.choice([16, 24, 80]), 4, ("model",), source.choice([None, None, 9]))
        self.engine = SimulatedEngine(config, kv)
        self.engine.tick_s = 0.0

    def request(self, number: int) -> Request:
        pick = self.source.choice
        prompt = [*([pick([1, 2])] * 12), *(self.source.randrange(50) for _ in range(self.source.randrange(1, 30)))]
        return replace(
            make_request(f"r{number}", prompt, pick([1, 4, 15]), arrival_s=self.engine.now_s),
            class_name=pick(["gold", "silver", "bronze", "only", ""]),
            tenant=pick("abc"),
            is_warmup=self.source.random() < 0.1,
            ttft_s=pick([None, None, 1e-6, 86_400.0]),
            itl_s=pick([None, None, 1e-6, 86_400.0]),
            queue_ttl_s=pick([None, None, None, 1e-6, 86_400.0]),
        )

    def offer(self, number: int) -> None:
        request = self.request(number)
        try:
            self.engine.add(request)
        except Overloaded as error:
            self.told_s.append(error.retry_after_s)

    def step(self) -> None:
        engine = self.engine
        if (due_s := engine.scheduler.expiry_due_s) is not None and due_s <= engine.now_s:
            engine.expire()
        plan = engine.plan()
        self.leave()
        if plan is not None:
            engine.now_s += self.source.choice(self.steps_s)
            engine.commit(engine.runner.run(plan))
        assert math.isfinite(engine.scheduler.stats.predicted_s or 0.0)

    def leave(self) -> None:
        if self.source.random() < 0.1:
            here = [name for name in self.engine.requests if name not in self.engine.finished]
            if here:
                self.engine.abort(self.source.choice(here))


@pytest.mark.parametrize("steps", STEPS_S)
@pytest.mark.parametrize("seed", range(25))
def test_each_request_ends_once_and_with_its_own_tokens(seed: int, steps: str) -> None:
    world = World(random.Random(seed), STEPS_S[steps])
    engine = world.engine
    for number in range(60):
        world.offer(number)
        world.step()
    for _ in range(3_000):
        if not engine.scheduler.has_work:
            break
        world.step()
    assert set(engine.finished) == set(engine.requests)
    assert all(1.0 <= after_s <= 60.0 for after_s in world.told_s)
    for events in engine.events.values():
        assert [event.finish_reason is None for event in events] == [True] * (len(events) - 1) + [False]
        assert events[-1].finish_reason is not FinishReason.ERROR or len(events) == 1
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()
