"""Whole runs under traffic: nobody starves, and memory pressure changes no token."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import ContextTooLong
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Request
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request

MAX_STEPS_TO_FINISH = 200
MAX_WAITING = 6


def make_engine(
    max_running: int, budget_tokens: int, num_blocks: int, window_tokens: int | None = None
) -> SimulatedEngine:
    config = SchedulerConfig(
        budget_tokens=budget_tokens,
        max_running=max_running,
        max_model_tokens=60,
        eos_ids=(EOS_ID,),
    )
    return SimulatedEngine(config, KvCacheConfig(num_blocks, 2, ("model",), window_tokens))


def random_request(source: random.Random, number: int, max_own_tokens: int = 8) -> Request:
    """Most of the traffic begins with one of two system prompts."""
    shared = [source.choice([1, 2])] * 8 if source.random() < 0.8 else []
    own = [source.randrange(1, 50) for _ in range(source.randint(1, max_own_tokens))]
    return make_request(f"r{number}", shared + own, source.randint(1, 8), seed=number)


def offer(engine: SimulatedEngine, request: Request) -> bool:
    if engine.scheduler.stats.num_waiting >= MAX_WAITING:
        return False
    try:
        engine.add(request)
    except ContextTooLong:
        return False
    return True


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    max_running=st.integers(1, 5),
    extra_budget=st.integers(0, 8),
    num_blocks=st.integers(12, 24),
    window_tokens=st.none() | st.integers(1, 20),
)
def test_under_endless_traffic_every_request_ends_in_time(
    seed: int, max_running: int, extra_budget: int, num_blocks: int, window_tokens: int | None
) -> None:
    source = random.Random(seed)
    engine = make_engine(max_running, max_running + extra_budget, num_blocks, window_tokens)
    added_at: dict[str, int] = {}
    for number in range(300):
        request = random_request(source, number)
        if offer(engine, request):
            added_at[request.request_id] = number
        engine.step()
        overdue = [name for name, step in added_at.items() if number - step > MAX_STEPS_TO_FINISH]
        assert not set(overdue) - set(engine.finished)
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


@pytest.mark.parametrize("window_tokens", [None, 7])
@pytest.mark.parametrize("seed", range(5))
def test_an_abort_storm_leaves_the_others_and_no_block_behind(seed: int, window_tokens: int | None) -> None:
    source = random.Random(seed)
    engine = make_engine(max_running=4, budget_tokens=12, num_blocks=16, window_tokens=window_tokens)
    for number in range(300):
        offer(engine, random_request(source, number))
        planned = engine.plan()
        for request_id in [name for name in engine.requests if name not in engine.finished and source.random() < 0.3]:
            engine.abort(request_id)
        if planned is not None:
            engine.commit(engine.runner.run(planned))
        engine.cache.check()
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_tokens_do_not_depend_on_budget_memory_or_arrivals(seed: int, data: st.DataObject) -> None:
    source = random.Random(seed)
    max_running = data.draw(st.integers(1, 6))
    engine = make_engine(
        max_running,
        data.draw(st.integers(max_running, 40)),
        data.draw(st.integers(8, 80)),
        data.draw(st.none() | st.integers(1, 30)),
    )
    for number in range(16):
        offer(engine, random_request(source, number, max_own_tokens=data.draw(st.sampled_from([1, 8, 40]))))
        for _ in range(data.draw(st.integers(0, 3))):
            engine.step()
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()
    assert all(events[-1].finish_reason is not None for events in engine.events.values())
    assert all(len({event.num_cached_tokens for event in events}) == 1 for events in engine.events.values())
