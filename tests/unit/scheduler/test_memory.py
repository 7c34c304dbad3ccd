"""Memory of the pool comes with the blocks that a step uses, and goes while nobody needs it."""

from collections.abc import Sequence

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.config import SweepConfig
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.scheduler.scheduler import SchedulerConfig
from tests.support.simulation import SimulatedEngine, make_request

CONFIG = SchedulerConfig(budget_tokens=64, max_running=8, max_model_tokens=200, eos_ids=())
KV = KvCacheConfig(40, 4, ("model",), None, 16, EvictionConfig(ttl_s=50.0), SweepConfig(chunk_idle_s=5.0))


def make_engine(*prompts: Sequence[int], max_tokens: int = 2) -> SimulatedEngine:
    engine = SimulatedEngine(CONFIG, KV)
    for number, prompt in enumerate(prompts):
        engine.add(make_request(f"r{number}", prompt, max_tokens))
    return engine


def test_a_step_commits_the_chunks_of_the_blocks_it_is_given() -> None:
    engine = make_engine(range(100, 118), max_tokens=20)
    (plan, *later) = engine.run_to_end()
    assert plan.committed == (range(8),)
    assert [step.committed for step in later if step.committed] == [(range(8, 12),)]
    assert engine.runner.committed == set(range(12))


def test_nothing_is_tidied_where_nothing_is_left() -> None:
    engine = make_engine()
    assert engine.scheduler.tidy(1.0) is None
    assert engine.scheduler.tidy_due_s is None


def test_idle_blocks_keep_their_memory_until_they_expire_and_the_chunk_a_moment_longer() -> None:
    engine = make_engine(range(100, 115))
    engine.run_to_end()
    assert engine.scheduler.tidy(engine.now_s + 49.0) is None
    assert engine.scheduler.stats.num_blocks_cached == 4
    assert engine.scheduler.tidy(engine.now_s + 51.0) is None
    assert engine.scheduler.stats.num_blocks_cached == 0
    assert engine.scheduler.tidy_due_s == engine.now_s + 56.0
    plan = engine.scheduler.tidy(engine.now_s + 56.0)
    assert plan is not None
    assert (plan.slices, plan.released) == ((), (range(4),))
    assert engine.scheduler.pool_record.num_expired_total == 4
    assert engine.scheduler.tidy_due_s is None


def test_a_request_that_comes_after_memory_went_gets_it_again() -> None:
    engine = make_engine(range(100, 118))
    engine.run_to_end()
    for passed_s in (60.0, 70.0):
        plan = engine.scheduler.tidy(engine.now_s + passed_s)
        if plan is not None:
            engine.runner.run(plan)
    assert not engine.runner.committed
    engine.now_s += 70.0
    engine.add(make_request("again", range(100, 118), 2))
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    assert engine.runner.committed == set(range(8))


def test_memory_goes_beside_running_streams_too() -> None:
    engine = make_engine(range(100, 118), range(50, 54), max_tokens=2)
    engine.run_to_end()
    engine.add(make_request("long", range(10, 14), 90))
    plans = engine.run_to_end()
    assert any(plan.released for plan in plans)
    assert all(plan.slices for plan in plans)
    engine.assert_outputs_as_alone()
