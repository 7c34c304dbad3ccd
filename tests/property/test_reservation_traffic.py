"""Setting blocks aside changes which block is taken, and nothing else: no start, no eviction, no preemption."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import StepPlan
from tailrace.scheduler.scheduler import SchedulerConfig, SchedulerStats
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request

CONFIG = SchedulerConfig(budget_tokens=12, max_running=5, max_model_tokens=60, eos_ids=(EOS_ID,))


def schedule(seed: int, num_blocks: int, window_tokens: int | None) -> tuple[list[StepPlan], SchedulerStats]:
    """What is planned for random traffic, without the ids of blocks, and what it came to."""
    source = random.Random(seed)
    engine = SimulatedEngine(CONFIG, KvCacheConfig(num_blocks, 2, ("model",), window_tokens), vocabulary=12)
    plans = []
    for number in range(80):
        prompt = [source.choice((1, 2))] * source.randint(1, 6) + [source.randrange(1, 9) for _ in range(4)]
        engine.add(make_request(f"r{number}", prompt, source.randint(1, 12), seed=number))
        plans.append(engine.step())
        engine.cache.check()
    plans += engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()
    return [anonymous(plan) for plan in plans if plan is not None], engine.scheduler.stats


def anonymous(plan: StepPlan) -> StepPlan:
    slices = [part._replace(new_blocks=(0,) * len(part.new_blocks)) for part in plan.slices]
    copies = [replace(copy, source=0, target=0) for copy in plan.copies]
    return replace(plan, slices=tuple(slices), copies=tuple(copies), moves=(), committed=(), released=())


def reserve_nothing(cache: KvCache, table: BlockTable, num_blocks: int) -> None:
    pass


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(12, 40), st.none() | st.integers(1, 16))
def test_the_schedule_is_the_same_with_and_without(seed: int, num_blocks: int, window_tokens: int | None) -> None:
    ahead = schedule(seed, num_blocks, window_tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KvCache, "set_aside", reserve_nothing)
        assert schedule(seed, num_blocks, window_tokens) == ahead


def test_there_is_something_to_change() -> None:
    _, stats = schedule(0, 14, None)
    assert stats.num_preempted_total > 10
    assert stats.num_blocks_evicted_total > 10
