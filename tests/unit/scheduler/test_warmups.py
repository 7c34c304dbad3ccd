"""Requests that nobody asked for: they change nothing that is learned from users."""

from dataclasses import replace

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.foresight import Foresight
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason
from tests.support.simulation import SimulatedEngine, make_request

CONFIG = SchedulerConfig(budget_tokens=32, max_running=4, max_model_tokens=64, eos_ids=(0,))


def run_many(*, is_warmup: bool) -> tuple[int, set[bool]]:
    """What answer is expected of a user after 40 short requests, and what their records call them."""
    engine, foresight = SimulatedEngine(CONFIG, KvCacheConfig(64, 2, ("model",))), Foresight()
    engine.scheduler = Scheduler(CONFIG, engine.cache, engine.store, foresight)
    for number in range(40):
        request = make_request(f"r{number}", [1, 2, 3, number], 1)
        engine.add(replace(request, is_warmup=is_warmup))
        engine.run_to_end()
    assert set(engine.finished.values()) == {FinishReason.LENGTH}
    records = engine.scheduler.drain_records()
    expected = foresight.num_output_tokens(make_request("user", [1], 50), CONFIG.classes.default_name)
    return expected, {record.is_warmup for record in records}


def test_the_length_of_answers_is_learned_from_users_alone() -> None:
    assert run_many(is_warmup=True) == (0, {True})
    assert run_many(is_warmup=False) == (2, {False}), "one token and the margin"


def test_a_user_who_comes_meanwhile_waits_for_no_more_than_the_step_that_runs_and_what_was_computed_stays() -> None:
    config = replace(CONFIG, budget_tokens=8)
    engine = SimulatedEngine(config, KvCacheConfig(64, 2, ("model",)))
    ahead = replace(make_request("ahead", range(1, 41), 1), is_warmup=True)
    engine.add(ahead)
    engine.step()
    running = engine.plan()
    assert running is not None

    engine.add(make_request("user", range(50, 56), 2))
    engine.abort("ahead")
    engine.commit(engine.runner.run(running))
    after = engine.step()
    assert after is not None
    assert [part.request_id for part in after.slices] == ["user"]
    assert after.size.num_sampled == 1, "the user's first token is a step late"

    engine.run_to_end()
    engine.add(replace(ahead, request_id="again"))
    engine.run_to_end()
    assert engine.events["again"][0].num_cached_tokens == 8, "what the first step computed"
    engine.assert_nothing_leaked()
