"""Requests that need a prefix which is being computed wait for it instead of computing it again."""

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.scheduler import SchedulerConfig
from tests.support.simulation import SimulatedEngine, make_request

SYSTEM = list(range(100, 140))  # ten blocks


def make_engine(budget_tokens: int = 16, max_running: int = 8, num_blocks: int = 100) -> SimulatedEngine:
    config = SchedulerConfig(
        budget_tokens=budget_tokens,
        max_running=max_running,
        max_model_tokens=200,
        eos_ids=(),
    )
    return SimulatedEngine(config, KvCacheConfig(num_blocks, 4, ("model",)))


def entered(engine: SimulatedEngine) -> list[str]:
    plan = engine.step()
    assert plan is not None
    return [entry.request_id for entry in plan.entered]


def test_a_shared_prompt_is_computed_once() -> None:
    engine = make_engine()
    for number in range(6):
        engine.add(make_request(f"r{number}", [*SYSTEM, 1 + number], 3))
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    assert engine.runner.num_computed_tokens == len(SYSTEM) + 6 * 3


def test_choices_of_one_prompt_compute_it_once() -> None:
    engine = make_engine()
    for number in range(4):
        engine.add(make_request(f"r{number}", SYSTEM[:-2], 1, seed=number))
    engine.run_to_end()
    assert engine.runner.num_computed_tokens == 38 + 3 * 2
    assert {events[0].num_cached_tokens for events in engine.events.values()} == {0, 36}


def test_the_deferred_do_not_block_those_behind() -> None:
    engine = make_engine(budget_tokens=20)
    engine.add(make_request("leader", [*SYSTEM, 1]))
    engine.add(make_request("follower", [*SYSTEM, 2]))
    engine.add(make_request("other", [50, 51]))
    assert entered(engine) == ["leader", "other"]
    assert engine.scheduler.stats.num_deferred == 1


def test_a_follower_starts_when_what_it_shares_is_sealed_not_when_the_leader_is_done() -> None:
    engine = make_engine(budget_tokens=24)
    engine.add(make_request("leader", [*SYSTEM, *range(200, 240)]))
    engine.add(make_request("follower", [*SYSTEM[:8], 1, 2]))
    assert entered(engine) == ["leader"]
    assert entered(engine) == ["follower"]
    assert engine.events["leader"] == []


def test_a_follower_goes_on_when_the_leader_is_aborted() -> None:
    engine = make_engine()
    engine.add(make_request("leader", [*SYSTEM, 1]))
    engine.add(make_request("follower", [*SYSTEM, 2]))
    engine.step()
    engine.abort("leader")
    plan = engine.step()
    assert plan is not None
    assert [(part.request_id, part.start) for part in plan.slices] == [("follower", 12)]
    engine.run_to_end()
    engine.assert_outputs_as_alone()


def test_one_of_the_followers_of_an_aborted_leader_leads_the_others() -> None:
    engine = make_engine()
    for number in range(5):
        engine.add(make_request(f"r{number}", [*SYSTEM, number + 1], 1))
    planned = engine.plan()
    assert planned is not None
    engine.abort("r0")
    engine.commit(engine.runner.run(planned))
    before = engine.runner.num_computed_tokens
    assert entered(engine) == ["r1"]
    engine.run_to_end()
    assert engine.runner.num_computed_tokens - before == len(SYSTEM) + 4


def test_a_deferred_request_can_be_aborted() -> None:
    engine = make_engine()
    engine.add(make_request("leader", [*SYSTEM, 1]))
    engine.add(make_request("follower", [*SYSTEM, 2]))
    engine.step()
    engine.abort("follower")
    assert engine.scheduler.stats.num_waiting == 0
    engine.run_to_end()
    engine.assert_nothing_leaked()


def test_leaders_that_vanish_do_not_hold_a_follower_back() -> None:
    engine = make_engine(budget_tokens=8, max_running=4)
    engine.add(make_request("leader 0", [*SYSTEM, 1]))
    engine.add(make_request("follower", [*SYSTEM, 2], 1))
    engine.step()
    engine.add(make_request("leader 1", [*SYSTEM, 1]))
    engine.abort("leader 0")
    assert entered(engine) == ["follower"]


def test_a_preempted_leader_leads_again() -> None:
    """Its follower came later and still needs the same blocks."""
    engine = make_engine(budget_tokens=4, num_blocks=15, max_running=3)
    engine.add(make_request("old", range(8), 20))
    engine.step()
    engine.step()
    engine.add(make_request("leader", [*SYSTEM, 1], 2))
    engine.add(make_request("follower", [*SYSTEM, 2], 2))
    plans = engine.run_to_end()
    assert [entry.request_id for plan in plans for entry in plan.entered] == ["leader", "leader", "follower"]
    assert engine.events["follower"][0].num_cached_tokens == len(SYSTEM)
    engine.assert_outputs_as_alone()


def test_other_tenants_are_not_waited_for() -> None:
    engine = make_engine(budget_tokens=100)
    engine.add(make_request("one", [*SYSTEM, 1], cache_salt="one"))
    engine.add(make_request("two", [*SYSTEM, 1], cache_salt="two"))
    assert entered(engine) == ["one", "two"]
