import pytest

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.config import SweepConfig
from tailrace.scheduler.plan import StepPlan
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Request
from tests.support.simulation import SimulatedEngine, make_request

CONFIG = SchedulerConfig(budget_tokens=32, max_running=8, max_model_tokens=200, eos_ids=())


def engine_with(
    num_blocks: int, *requests: Request, block_tokens: int = 4, sweep: SweepConfig | None = None
) -> SimulatedEngine:
    kv = KvCacheConfig(num_blocks, block_tokens, ("model",), sweep=sweep or SweepConfig())
    engine = SimulatedEngine(CONFIG, kv)
    for request in requests:
        engine.add(request)
    return engine


def prompt(number: int, num_tokens: int = 4) -> range:
    return range(1_000 * number, 1_000 * number + num_tokens)


def step_until_one_leaves(engine: SimulatedEngine) -> StepPlan:
    while True:
        plan = engine.step()
        assert plan is not None
        if plan.left:
            return plan


def test_the_latest_arrival_pays_when_blocks_run_out() -> None:
    engine = engine_with(6, *[make_request(f"r{number}", prompt(number), 12) for number in range(3)])
    assert step_until_one_leaves(engine).left == ("r2",)
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


def test_a_preempted_request_resumes_with_all_its_tokens_and_says_so_in_its_record() -> None:
    engine = engine_with(5, make_request("old", prompt(1), 13), make_request("young", prompt(2), 9))
    step_until_one_leaves(engine)
    sent = list(engine.outputs["young"])
    plans = engine.run_to_end()
    (entry,) = [entry for plan in plans for entry in plan.entered]
    assert list(entry.token_ids) == [*prompt(2), *sent]
    assert entry.num_prompt_tokens == 4
    records = {record.request_id: record for record in engine.scheduler.drain_records()}
    assert records["young"].num_preemptions == 1
    assert records["old"].num_preemptions == 0
    assert engine.scheduler.stats.num_preempted_total == 1
    engine.assert_outputs_as_alone()


def test_a_preempted_request_goes_before_those_that_came_later() -> None:
    engine = engine_with(4, *[make_request(f"r{number}", prompt(number), 9) for number in range(3)])
    entered = [entry.request_id for plan in engine.run_to_end() for entry in plan.entered]
    assert entered[:4] == ["r0", "r1", "r1", "r2"]


@pytest.mark.parametrize(("num_more_steps", "num_found"), [(0, 12), (4, 8), (8, 4)])
def test_a_preempted_request_finds_its_blocks_again_but_for_those_that_others_took(
    num_more_steps: int, num_found: int
) -> None:
    requests = make_request("old", prompt(1, 8), 16), make_request("young", prompt(2, 12), 6)
    engine = engine_with(6, *requests, sweep=SweepConfig(free_share=0.0))
    step_until_one_leaves(engine)
    for _ in range(num_more_steps):
        engine.step()
    engine.abort("old")
    plan = engine.step()
    assert plan is not None
    assert [(part.request_id, part.start) for part in plan.slices] == [("young", num_found)]


def test_the_request_that_needs_the_block_may_be_the_one_that_pays() -> None:
    engine = engine_with(4, make_request("old", prompt(1, 6), 6), make_request("young", prompt(2, 4), 6))
    plan = step_until_one_leaves(engine)
    assert plan.left == ("young",)
    engine.run_to_end()
    engine.assert_outputs_as_alone()


def test_a_request_alone_uses_every_block() -> None:
    engine = engine_with(5, make_request("alone", prompt(1, 10), 11))
    engine.run_to_end()
    assert engine.scheduler.stats.num_preempted_total == 0
    engine.assert_outputs_as_alone()


def test_a_newcomer_leaves_one_block_for_each_stream() -> None:
    engine = engine_with(4, make_request("stream", prompt(1), 9))
    engine.step()
    engine.add(make_request("big", prompt(2, 9), 1))
    engine.step()
    assert engine.scheduler.stats.num_waiting == 1
    engine.add(make_request("small", prompt(3, 5), 1))
    engine.step()
    assert engine.scheduler.stats.num_waiting == 2
    engine.run_to_end()
    engine.assert_outputs_as_alone()


def test_a_newcomer_leaves_no_block_for_streams_that_need_none() -> None:
    engine = engine_with(3, make_request("stream", prompt(1, 2), 3))
    engine.step()
    engine.add(make_request("big", prompt(2, 8), 1))
    engine.step()
    assert "big" in engine.finished


def test_tight_memory_does_not_thrash() -> None:
    """Twelve requests of ten blocks share thirty: little is computed twice."""
    requests = [make_request(f"r{number}", prompt(number, 8), 32) for number in range(12)]
    engine = engine_with(30, *requests)
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    useful = sum(request.num_prompt_tokens + 31 for request in requests)
    assert engine.runner.num_computed_tokens < 1.5 * useful
    assert engine.scheduler.stats.num_preempted_total <= 2 * len(requests)
