"""One tenant's burst, and another's single requests: who is turned away."""

from dataclasses import replace

from tailrace.errors import Overloaded, RefusalReason
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.scheduler import SchedulerConfig
from tests.support.simulation import SimulatedEngine, make_request

CONFIG = SchedulerConfig(budget_tokens=64, max_running=8, max_model_tokens=1_000, eos_ids=())


def is_refused(engine: SimulatedEngine, tenant: str) -> bool:
    first = 10_000 * len(engine.requests)
    request = make_request(f"{tenant}{first}", range(first, first + 100), 2, arrival_s=engine.now_s)
    try:
        engine.add(replace(request, tenant=tenant))
    except Overloaded as error:
        return error.reason is RefusalReason.TARGET_UNREACHABLE
    return False


def steps(engine: SimulatedEngine, count: int) -> None:
    for _ in range(count):
        plan = engine.plan()
        assert plan is not None
        engine.now_s += 0.1  # 640 tokens of prompts a second at the most
        engine.commit(engine.runner.run(plan))


def test_a_burst_turns_away_its_own_tenant_and_no_other() -> None:
    engine = SimulatedEngine(CONFIG, KvCacheConfig(400, 8, ("model",)))
    engine.tick_s = 0.0
    for _ in range(20):
        is_refused(engine, "burst")
    steps(engine, 10)
    assert [is_refused(engine, "burst") for _ in range(200)].count(True) > 20
    assert not is_refused(engine, "single")
    engine.run_to_end()
    engine.assert_nothing_leaked()
