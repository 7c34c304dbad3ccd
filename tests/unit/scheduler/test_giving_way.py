"""Gold arrives into a machine full of bronze: what it gets, and what bronze pays."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import NamedTuple

import pytest

from tailrace.classes import STANDARD
from tailrace.errors import Overloaded, RefusalReason
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.records import PreemptionCount, RequestRecord
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Level, PreemptionCause
from tests.support.simulation import SimulatedEngine, make_request

BLOCK_TOKENS = 8
CONFIG = SchedulerConfig(budget_tokens=64, max_running=4, max_model_tokens=1_000, eos_ids=())
RIGID = replace(STANDARD, classes=tuple(replace(each, max_yields=0) for each in STANDARD))


def make_engine(config: SchedulerConfig, num_blocks: int, levels: tuple[Level, ...] = ()) -> SimulatedEngine:
    engine = SimulatedEngine(config, KvCacheConfig(num_blocks, BLOCK_TOKENS, ("model",)), levels=levels)
    engine.tick_s = 0.05
    return engine


def add(engine: SimulatedEngine, class_name: str, number: int, num_prompt_tokens: int, max_tokens: int) -> None:
    first = 10_000 * len(engine.requests)
    prompt = range(first, first + num_prompt_tokens)
    request = make_request(f"{class_name}{number}", prompt, max_tokens, arrival_s=engine.now_s)
    engine.add(replace(request, class_name=class_name))


class Outcome(NamedTuple):
    records: list[RequestRecord]
    counts: tuple[PreemptionCount, ...]


@cache
def run(config: SchedulerConfig, num_blocks: int, levels: tuple[Level, ...] = ()) -> Outcome:
    """Eight bronze requests of long answers in four places; then a gold one every second."""
    engine = make_engine(config, num_blocks, levels)
    for number in range(8):
        add(engine, "bronze", number, 40, 300)
    for number in range(6):
        for _ in range(20):
            engine.step()
        add(engine, "gold", number, 60, 8)
    return end(engine)


def end(engine: SimulatedEngine) -> Outcome:
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()
    return Outcome(engine.scheduler.drain_records(), engine.scheduler.stats.preemptions)


def by_deadline(outcome: Outcome) -> list[PreemptionCount]:
    return [count for count in outcome.counts if count.cause is PreemptionCause.DEADLINE]


def ttfts_s(records: list[RequestRecord], class_name: str) -> Iterator[float]:
    for record in records:
        if record.class_name == class_name:
            assert record.first_token_s is not None
            yield record.first_token_s - record.arrived_s


@pytest.mark.parametrize(
    ("num_blocks", "levels"),
    [(400, ()), (175, ()), (175, (Level.HOST,))],
    ids=["places are scarce", "so are blocks", "with a level below"],
)
def test_gold_comes_in_time_into_a_machine_full_of_bronze_and_loses_nobody_a_bit(
    num_blocks: int, levels: tuple[Level, ...]
) -> None:
    without = run(replace(CONFIG, classes=RIGID), num_blocks, levels)
    assert max(ttfts_s(without.records, "gold")) > 1.0
    outcome = run(CONFIG, num_blocks, levels)
    assert max(ttfts_s(outcome.records, "gold")) < 1.0
    (count,) = outcome.counts
    assert (count.class_name, count.cause) == ("bronze", PreemptionCause.DEADLINE)
    assert 1 <= count.num_requests <= 6
    assert count.num_lost_tokens < BLOCK_TOKENS * count.num_requests


def test_what_was_evicted_meanwhile_comes_from_below() -> None:
    """Memory is so short that bronze also loses blocks to streams: with a host level next to nothing is lost."""
    lost = [sum(count.num_lost_tokens for count in run(CONFIG, 100, levels).counts) for levels in ((), (Level.HOST,))]
    assert lost[1] < BLOCK_TOKENS * 12 < 300 < lost[0]


def test_blocks_alone_are_reason_enough() -> None:
    engine = make_engine(replace(CONFIG, max_running=32), 50)
    for number in range(4):
        add(engine, "bronze", number, 60, 100)
    for _ in range(20):
        engine.step()
    add(engine, "gold", 0, 200, 4)
    outcome = end(engine)
    assert list(ttfts_s(outcome.records, "gold")) < [1.0]
    (count,) = by_deadline(outcome)
    assert 1 <= count.num_requests <= 3


@pytest.mark.parametrize(("max_yields", "num_late"), [(0, 4), (3, 1)])
def test_one_that_finds_no_room_gives_way_to_one_that_does(max_yields: int, num_late: int) -> None:
    """Bronze is next, since it had less than its share, but too large for now: gold is small enough."""
    gold, silver, bronze = STANDARD
    shares = (gold, replace(silver, min_share=0.0), replace(bronze, min_share=0.5, max_yields=max_yields))
    engine = make_engine(replace(CONFIG, classes=replace(STANDARD, classes=shares)), 100)
    add(engine, "gold", 0, 300, 400)
    engine.step()
    add(engine, "bronze", 0, 500, 4)
    for number in range(1, 15):
        for _ in range(10):
            engine.step()
        add(engine, "gold", number, 100, 2)
    outcome = end(engine)
    assert sum(ttft_s >= 1.0 for ttft_s in ttfts_s(outcome.records, "gold")) == num_late
    assert not outcome.counts


def test_who_is_too_late_after_all_is_favoured_no_more() -> None:
    engine = make_engine(CONFIG, 400)
    for number in range(4):
        add(engine, "bronze", number, 40, 300)
    for _ in range(20):
        engine.step()
    add(engine, "gold", 0, 60, 8)
    queue = engine.scheduler._queue
    (gold,) = queue
    queue.favour(gold)
    engine.now_s += 2.0
    engine.step()
    assert queue.favoured is None
    assert engine.scheduler.stats.num_preempted_total == 0


@pytest.mark.parametrize(("max_yields", "is_refused"), [(0, True), (3, False)])
def test_gold_is_not_turned_away_for_blocks_that_bronze_would_give(max_yields: int, *, is_refused: bool) -> None:
    gold, silver, bronze = STANDARD
    classes = replace(STANDARD, classes=(gold, silver, replace(bronze, max_yields=max_yields)))
    engine = make_engine(replace(CONFIG, max_running=32, classes=classes), 50)
    engine.tick_s = 0.0
    for number in range(12):
        add(engine, "bronze", number, 60, 40)
    refused = []
    for number in range(100):
        if number % 20 == 19:
            try:
                add(engine, "gold", number, 100, 2)
            except Overloaded as error:
                refused.append(error.reason)
        plan = engine.plan()
        engine.now_s += 0.05
        if plan is not None:
            engine.commit(engine.runner.run(plan))
    assert set(refused) == ({RefusalReason.TARGET_UNREACHABLE} if is_refused else set())
    started = [record for record in end(engine).records if record.refused_for is None]
    # Where nobody gives way, one comes before it has shown that room is short.
    assert sum(ttft_s >= 1.0 for ttft_s in ttfts_s(started, "gold")) <= is_refused


def test_an_idle_engine_turns_nobody_away_whatever_was_measured_when_room_was_short() -> None:
    engine = make_engine(CONFIG, 32)
    engine.tick_s = 0.0
    for number in range(8):
        add(engine, "bronze", number, 60, 180)
    for _ in range(200):
        plan = engine.plan()
        engine.now_s += 0.05
        if plan is not None:
            engine.commit(engine.runner.run(plan))
    for request_id in set(engine.requests) - set(engine.finished):
        engine.abort(request_id)
    add(engine, "gold", 0, 240, 2)
    assert engine.run_to_end()


@pytest.mark.parametrize("seed", range(6))
def test_under_changing_load_nobody_gives_way_too_often_and_little_is_computed_twice(seed: int) -> None:
    random = Random(seed)
    engine = make_engine(CONFIG, random.choice([60, 120, 400]))
    for number in range(60):
        class_name = random.choice(["gold", "silver", "bronze", "bronze"])
        add(engine, class_name, number, random.randint(4, 120), random.randint(1, 60))
        for _ in range(random.choice([0, 0, 3, 10])):
            engine.step()
    counts = by_deadline(end(engine))
    assert counts
    num_bronze = sum(request.class_name == "bronze" for request in engine.requests.values())
    for count in counts:
        assert count.class_name != "gold"
        assert count.num_requests <= num_bronze
        assert count.num_lost_tokens <= 0.1 * engine.runner.num_computed_tokens
