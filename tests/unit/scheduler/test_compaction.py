from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.config import CompactionConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.scheduler.plan import BlockMove
from tailrace.scheduler.scheduler import SchedulerConfig
from tests.support.simulation import SimulatedEngine, make_request, restless

CONFIG = SchedulerConfig(budget_tokens=32, max_running=8, max_model_tokens=200, eos_ids=())


def engine_with(compaction: CompactionConfig) -> SimulatedEngine:
    """Chunks of four blocks of two tokens."""
    return SimulatedEngine(CONFIG, KvCacheConfig(40, 2, ("model",), chunk_tokens=8, compaction=compaction))


def forget(engine: SimulatedEngine, tenant: str) -> None:
    engine.cache.forget(Forget(Scope.TENANT, engine.cache.open(tenant).owner.tenant))


def leave_holes(engine: SimulatedEngine) -> None:
    """Four cached prompts of a tenant, each in a chunk of which another's blocks are gone."""
    for number in range(8):
        tenant = "kept" if number % 2 else "gone"
        engine.add(make_request(f"r{number}", range(100 * number, 100 * number + 4), 1, cache_salt=tenant))
    engine.run_to_end()
    forget(engine, "gone")


def test_streams_go_on_while_their_blocks_move() -> None:
    engine = engine_with(restless(2))
    leave_holes(engine)
    engine.add(make_request("stream", range(900, 905), 30, cache_salt="gone"))
    plans = engine.run_to_end()
    assert any(plan.moves for plan in plans)
    assert all(len(plan.moves) <= 2 for plan in plans)
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


def test_what_is_cached_moves_together_while_nothing_runs() -> None:
    engine = engine_with(restless(1))
    leave_holes(engine)
    moves: list[BlockMove] = []
    while (plan := engine.scheduler.tidy(engine.now_s)) is not None and plan.moves:
        assert not plan.slices
        engine.runner.run(plan)
        moves += plan.moves
        assert engine.scheduler.tidy_due_s == engine.now_s
    assert len(moves) == 4
    assert engine.cache.pool_record.num_partial_chunks == 0
    engine.cache.check()
    engine.add(make_request("again", range(100, 104), 1, cache_salt="kept"))
    engine.run_to_end()
    assert engine.events["again"][-1].num_cached_tokens > 0
    engine.assert_outputs_as_alone()


def test_background_moves_wait_while_prompts_are_computed() -> None:
    always = CompactionConfig(begin_above=0.0, end_below=0.0, urgent_above=1.0, urgent_until=1.0)
    engine = engine_with(always)
    leave_holes(engine)
    engine.add(make_request("long", range(500, 506), 3, cache_salt="new"))
    plan = engine.step()
    assert plan is not None
    assert plan.num_tokens > 1
    assert not plan.moves
    plan = engine.step()
    assert plan is not None
    assert plan.moves
    engine.run_to_end()
    engine.assert_outputs_as_alone()
