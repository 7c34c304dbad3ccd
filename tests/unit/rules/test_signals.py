"""The value of each signal, computed by hand."""

import math
from dataclasses import replace

import pytest

from tailrace.records import FirstToken, LevelUse
from tailrace.rules.rule import Rule, Side, Signal
from tailrace.rules.signals import Facts, LevelFaults, Reading, TokenCounts, reader_of


def rule(signal: Signal, subject: str = "redis", **fields: float) -> Rule:
    made = Rule("r", signal, subject, Side.ABOVE, 1.0, for_s=10, clear_at=1.0, clear_for_s=10, min_samples=3)
    return replace(made, **fields)  # type: ignore[arg-type]  # mypy: fields of several types


def use(num_lookups: float, num_asked: float, num_given: float, lost_s: float) -> Facts:
    return Facts(uses={"redis": LevelUse(num_lookups, num_asked, num_given, lost_s)})


def test_a_hit_rate_is_what_was_given_of_what_was_asked_since_the_rule_is_there() -> None:
    reader = reader_of(rule(Signal.HIT_RATE))
    assert reader.read(use(100, 1000, 900, 0.0), 0.0) == Reading()
    assert reader.read(use(102, 1020, 904, 0.0), 1.0) == Reading(0.2, counts=False)
    assert reader.read(use(104, 1040, 910, 0.0), 2.0) == Reading(0.25, counts=True)


def test_a_level_that_is_cheap_to_ask_or_saves_more_than_it_costs_is_judged_by_nobody() -> None:
    reader = reader_of(rule(Signal.HIT_RATE, least_loss_s=0.05))
    assert reader.read(use(0, 0, 0, 0.0), 0.0) == Reading()
    assert reader.read(use(10, 100, 10, 0.4), 1.0) == Reading(0.1, counts=False)
    assert reader.read(use(20, 200, 20, 1.0), 2.0) == Reading(0.1, counts=True)
    assert reader.read(use(30, 300, 30, -5.0), 3.0) == Reading(0.1, counts=False)


def test_what_was_long_ago_does_not_count() -> None:
    reader = reader_of(rule(Signal.HIT_RATE, window_s=20.0))
    reader.read(use(0, 0, 0, 0.0), 0.0)
    reader.read(use(10, 100, 0, 0.0), 1.0)
    assert reader.read(use(20, 200, 100, 0.0), 30.0) == Reading(1.0, counts=True)
    assert reader.read(use(20, 200, 100, 0.0), 60.0) == Reading()


@pytest.mark.parametrize(("signal", "expected"), [(Signal.FAILURES, 4), (Signal.CORRUPT_BLOCKS, 2)])
def test_faults_are_those_within_the_window(signal: Signal, expected: int) -> None:
    reader = reader_of(rule(signal, window_s=60.0))
    reader.read(Facts(faults={"redis": LevelFaults(7, 3)}), 0.0)
    assert reader.read(Facts(faults={"redis": LevelFaults(11, 5)}), 1.0) == Reading(expected, counts=True)
    assert reader.read(Facts(faults={"redis": LevelFaults(11, 5)}), 90.0) == Reading(0, counts=True)


def test_first_tokens_of_a_class_are_seen_in_targets_and_their_wait_in_seconds() -> None:
    ttft, queue = reader_of(rule(Signal.TTFT_P99, "gold")), reader_of(rule(Signal.QUEUE_P99, "gold"))
    tokens = [FirstToken("gold", 0.5, 1.0), FirstToken("bronze", 9.0, 99.0), FirstToken("gold", 1.5, 2.5)]
    assert ttft.read(Facts(first_tokens=tokens), 0.0) == Reading(1.5, counts=False)
    assert queue.read(Facts(first_tokens=[*tokens, tokens[0]]), 0.0) == Reading(2.5, counts=True)
    assert ttft.read(Facts(first_tokens=[FirstToken("gold", math.inf, 0.0)]), 0.0) == Reading(math.inf, counts=True)
    assert ttft.read(Facts(), 100.0) == Reading()


def test_the_share_of_late_tokens_is_over_all_of_the_window() -> None:
    reader = reader_of(rule(Signal.LATE_TOKENS, "gold", min_samples=100))
    assert reader.read(Facts(), 0.0) == Reading()
    assert reader.read(Facts(tokens={"gold": TokenCounts(60, 6)}), 1.0) == Reading(0.1, counts=False)
    assert reader.read(Facts(tokens={"gold": TokenCounts(60, 0)}), 2.0) == Reading(0.05, counts=True)


def test_the_load_is_as_it_is_now() -> None:
    facts = Facts(waiting={"gold": 7}, kv_use=0.75)
    assert reader_of(rule(Signal.WAITING, "gold")).read(facts, 0.0) == Reading(7, counts=True)
    assert reader_of(rule(Signal.WAITING, "bronze")).read(facts, 0.0) == Reading(0, counts=True)
    assert reader_of(rule(Signal.KV_USE, "")).read(facts, 0.0) == Reading(0.75, counts=True)


def test_every_signal_can_be_read_before_anything_happened() -> None:
    for signal in Signal:
        assert reader_of(rule(signal, "gold")).read(Facts(), 0.0).acted_on in (None, 0)
