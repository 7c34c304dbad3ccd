"""Requests and the levels below the engine: what is found there is fetched, and whatever goes wrong costs a miss."""

import math

import pytest

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.transfer import BlockHead, Fetch, Lookup
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import FinishReason, Level, MissReason, TokenEvent
from tests.support.simulated_store import Faults
from tests.support.simulation import SimulatedEngine, make_request

PROMPT = list(range(100, 142))  # ten blocks and two tokens
ALL = (Level.HOST, Level.DISK, Level.REDIS)


def make_engine(
    levels: tuple[Level, ...] = (Level.HOST,),
    faults: Faults | None = None,
    *,
    num_blocks: int = 100,
    budget_tokens: int = 64,
) -> SimulatedEngine:
    config = SchedulerConfig(
        budget_tokens=budget_tokens,
        max_running=8,
        max_model_tokens=200,
        eos_ids=(),
    )
    kv = KvCacheConfig(num_blocks, 4, ("model",))
    return SimulatedEngine(config, kv, levels=levels, faults=faults)


def run(engine: SimulatedEngine, *names: str, prompt: list[int] = PROMPT) -> None:
    for name in names:
        engine.add(make_request(name, prompt, 4))
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


def flush(engine: SimulatedEngine) -> None:
    """Let others take the engine's whole cache."""
    for _ in range(3):
        prompt = [1000 * len(engine.requests) + token for token in range(180)]
        engine.add(make_request(f"flush{len(engine.requests)}", prompt, 1))
        engine.run_to_end()


def first_event(engine: SimulatedEngine, name: str) -> TokenEvent:
    return engine.events[name][0]


def tokens_of(engine: SimulatedEngine, name: str) -> dict[Level, int]:
    prefix = first_event(engine, name).prefix
    assert prefix is not None
    return dict(prefix.num_tokens)


def reason_of(engine: SimulatedEngine, name: str) -> MissReason | None:
    prefix = first_event(engine, name).prefix
    assert prefix is not None
    return prefix.reason


def test_what_was_computed_is_saved_and_fetched_when_the_engine_has_lost_it() -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    before = engine.runner.num_computed_tokens
    run(engine, "again")
    assert tokens_of(engine, "again") == {Level.HOST: 40}
    assert engine.runner.num_computed_tokens - before == 2 + 3


def test_how_long_a_request_waits_for_levels_is_known() -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    engine.add(make_request("again", PROMPT, 4))
    engine.add(make_request("beside it", [*PROMPT[:21], 7], 4))  # the same fetch gives it all that it lacks
    waited_s = []
    while engine.scheduler.has_work and not engine.events["again"]:
        engine.step()
        waited_s.append((engine.scheduler.fetch_s("again"), engine.scheduler.fetch_s("beside it")))
    assert waited_s == [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]  # looked up, fetched, computed


def test_who_waits_for_what_is_being_computed_waits_for_no_level() -> None:
    engine = make_engine(budget_tokens=16)
    engine.add(make_request("first", PROMPT, 4))
    engine.step()  # asks what lies below
    engine.step()
    engine.add(make_request("second", PROMPT, 4))
    while not engine.events["second"]:
        engine.step()
    assert engine.scheduler.fetch_s("first") == 1.0
    assert engine.scheduler.fetch_s("second") == 0.0
    assert tokens_of(engine, "second") == {Level.ENGINE: 40}


def test_the_answer_of_a_request_is_saved_too() -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    whole = [*PROMPT, *engine.outputs["first"], 7]
    run(engine, "next turn", prompt=whole)
    assert tokens_of(engine, "next turn") == {Level.HOST: 44}


def test_a_request_waits_for_levels_no_longer_than_computing_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(num_blocks=50)
    lookups: list[Lookup] = []
    fetches: list[Fetch] = []
    look_up, fetch = engine.store.look_up, engine.store.fetch

    def note_lookup(lookup: Lookup) -> None:
        lookups.append(lookup)
        look_up(lookup)

    def note_fetch(asked: Fetch) -> None:
        fetches.append(asked)
        fetch(asked)

    monkeypatch.setattr(engine.store, "look_up", note_lookup)
    monkeypatch.setattr(engine.store, "fetch", note_fetch)
    run(engine, "first")
    run(engine, "another", prompt=PROMPT[::-1])
    patience = [lookup.patience_s for lookup in lookups]
    assert patience[0] == math.inf  # nobody knows yet
    assert patience[1] < 0.25  # a simulated step takes no time
    flush(engine)
    run(engine, "again")
    assert 0.0 < fetches[0].patience_s < 0.5


def test_nobody_waits_for_levels_that_are_not_there() -> None:
    engine = make_engine(())
    run(engine, "first", "second")
    assert engine.store.num_pending == 0
    assert tokens_of(engine, "second") == {Level.ENGINE: 40}


def test_the_engine_gives_what_it_has_and_a_level_the_rest() -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    run(engine, "beginning", prompt=PROMPT[:21])
    run(engine, "again")
    assert tokens_of(engine, "again") == {Level.ENGINE: 20, Level.HOST: 20}


def test_requests_with_one_prefix_fetch_it_once() -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    run(engine, "a", "b", "c")
    assert engine.store.num_fetched[Level.HOST] == 10
    assert sorted(tokens_of(engine, name).get(Level.HOST, 0) for name in "abc") == [0, 0, 40]
    assert all(first_event(engine, name).num_cached_tokens == 40 for name in "abc")


def test_others_run_while_one_is_fetched() -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    engine.add(make_request("again", PROMPT, 4))
    assert engine.step() is None  # it is looked up
    engine.add(make_request("other", [5], 4))
    plan = engine.step()
    assert plan is not None
    assert [entry.request_id for entry in plan.entered] == ["other"]
    assert engine.store.fetching
    assert engine.scheduler.stats.num_deferred == 1
    engine.run_to_end()
    assert tokens_of(engine, "again") == {Level.HOST: 40}


def test_a_prefix_that_lies_on_several_levels_comes_from_each() -> None:
    engine = make_engine(ALL, Faults(dropped=50), num_blocks=50)
    run(engine, "first")
    flush(engine)
    run(engine, "again")
    found = tokens_of(engine, "again")
    assert len(found) > 1
    assert Level.ENGINE not in found


def test_what_comes_from_far_is_kept_nearer() -> None:
    engine = make_engine((Level.HOST, Level.REDIS), num_blocks=50)
    run(engine, "first")
    for expected in (Level.HOST, Level.REDIS, Level.HOST):
        if expected is Level.REDIS:
            engine.store.clear(Level.HOST)
        flush(engine)
        run(engine, f"again{len(engine.requests)}")
        assert expected in tokens_of(engine, list(engine.requests)[-1])


def test_a_fetch_takes_no_more_than_its_share_of_the_cache() -> None:
    engine = make_engine(num_blocks=20)
    run(engine, "first")
    for number in range(4):
        run(engine, f"other{number}", prompt=[1000 + 100 * number + token for token in range(60)])
    engine.add(make_request("again", PROMPT, 4))
    most = 0
    while not engine.finished.get("again"):
        engine.step()
        most = max(most, engine.cache.num_arriving)
    assert most == 5
    assert tokens_of(engine, "again") == {Level.HOST: 40}  # in two fetches


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
def test_a_request_can_be_aborted_in_each_phase(phase: int) -> None:
    engine = make_engine(num_blocks=50)
    run(engine, "first")
    flush(engine)
    engine.add(make_request("again", PROMPT, 4))
    for _ in range(phase):
        engine.step()
    engine.abort("again")
    engine.run_to_end()
    engine.assert_nothing_leaked()
    assert engine.finished["again"] is FinishReason.ABORT
    run(engine, "after")


def test_a_level_that_is_down_costs_a_miss() -> None:
    engine = make_engine(faults=Faults(down=100))
    run(engine, "first")
    assert reason_of(engine, "first") is MissReason.LEVEL_DOWN
    assert tokens_of(engine, "first") == {}


def test_blocks_that_are_gone_when_they_are_fetched_cost_a_miss() -> None:
    engine = make_engine(faults=Faults(gone=100), num_blocks=50)
    run(engine, "first")
    flush(engine)
    run(engine, "again")
    assert tokens_of(engine, "again") == {}


def test_saves_that_find_no_room_cost_a_miss_and_no_pin() -> None:
    engine = make_engine(faults=Faults(refused=100))
    run(engine, "first")
    engine.assert_nothing_leaked()


def test_a_preempted_request_looks_below_again() -> None:
    engine = make_engine(num_blocks=24, budget_tokens=16)
    for number in range(4):
        engine.add(make_request(f"r{number}", [100 * number + token for token in range(20)], 16))
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()
    assert engine.scheduler.stats.num_preempted_total > 0
    assert engine.store.num_fetched[Level.HOST] > 0


def test_a_level_that_is_slower_than_computing_is_left_alone_for_a_while() -> None:
    engine = make_engine(num_blocks=50)
    engine.store.fetch_s, engine.tick_s = 1.0, 0.001
    run(engine, "first")
    given = []
    for number in range(3):
        flush(engine)
        if number == 2:
            engine.now_s += 10.0
        run(engine, f"again{number}")
        given.append((tokens_of(engine, f"again{number}"), reason_of(engine, f"again{number}")))
    assert Level.HOST in given[0][0]
    assert Level.HOST in given[2][0]
    assert Level.HOST not in given[1][0]
    assert given[1][1] is MissReason.SLOWER_THAN_RECOMPUTE


@pytest.mark.parametrize(
    ("fingerprint", "reason"), [(b"another", MissReason.OTHER_FINGERPRINT), (None, MissReason.OTHER_SALT)]
)
def test_what_a_level_has_for_others_is_a_reason(fingerprint: bytes | None, reason: MissReason) -> None:
    engine = make_engine()
    ours = engine.cache.open("").owner.fingerprint
    engine.store.elsewhere = BlockHead(b"name", b"parent", b"tenant", fingerprint or ours, b"content")
    run(engine, "a")
    assert reason_of(engine, "a") is reason
    assert tokens_of(engine, "a") == {}


def test_who_was_preempted_finds_below_all_that_others_evicted_while_it_waited() -> None:
    """Streams that grow take its idle blocks one by one: it asks anew once it can start, not after each of them."""
    engine = make_engine(num_blocks=50, budget_tokens=32)
    for number in range(12):
        engine.add(make_request(f"r{number}", [100 * number + token for token in range(40)], 40))
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    stats = engine.scheduler.stats
    assert stats.num_preempted_total > 5
    assert stats.num_blocks_evicted_total > 20
    (count,) = stats.preemptions
    assert count.num_lost_tokens < 4 * stats.num_preempted_total  # in blocks of 4: only what was in none
