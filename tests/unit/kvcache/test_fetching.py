import math

import pytest

from tailrace.kvcache.fetching import FetchCosts, LinearCost
from tailrace.types import Level


def test_a_cost_is_found_from_what_was_seen() -> None:
    cost = LinearCost()
    assert cost.predict(10) is None
    for count in (1, 5, 20, 3, 40):
        cost.observe(count, 0.010 + 0.002 * count)
    assert cost.predict(100) == pytest.approx(0.210)


def test_a_cost_seen_at_one_count_is_in_proportion() -> None:
    cost = LinearCost()
    for _ in range(3):
        cost.observe(10, 0.5)
    assert cost.predict(20) == pytest.approx(1.0)


@pytest.mark.parametrize("seen", [[(1, 1.0), (10, 0.1)], [(1, 0.0), (2, 1.0), (3, 5.0)]])
def test_no_cost_is_less_than_nothing(seen: list[tuple[int, float]]) -> None:
    cost = LinearCost()
    for count, seconds in seen:
        cost.observe(count, seconds)
    predicted = [cost.predict(count) for count in (1, 2, 50)]
    assert all(seconds is not None and seconds > 0 for seconds in predicted)


def test_the_latest_counts_most() -> None:
    cost = LinearCost()
    for _ in range(200):
        cost.observe(10, 5.0)
    for _ in range(200):
        cost.observe(10, 0.1)
    assert cost.predict(10) == pytest.approx(0.1, rel=0.01)


def test_what_is_not_known_is_tried() -> None:
    costs = FetchCosts(block_tokens=16)
    assert costs.is_worth_trying(Level.HOST, 4, now_s=0.0)
    costs.fetched(Level.HOST, 4, 100.0)
    assert costs.is_worth_trying(Level.HOST, 4, now_s=0.0)  # nobody knows how long computing takes


def test_a_level_slower_than_computing_is_left_alone() -> None:
    costs = FetchCosts(block_tokens=10)
    costs.computed(1000, 1.0)  # 10 ms a block
    costs.fetched(Level.REDIS, 10, 0.5)
    costs.fetched(Level.HOST, 10, 0.01)

    assert costs.is_worth_trying(Level.HOST, 10, now_s=0.0)
    assert not costs.is_worth_trying(Level.REDIS, 10, now_s=0.0)


def test_a_slow_level_is_tried_once_in_a_while() -> None:
    costs = FetchCosts(block_tokens=10)
    costs.computed(1000, 1.0)
    assert costs.is_worth_trying(Level.DISK, 10, now_s=100.0)
    costs.fetched(Level.DISK, 10, 5.0)

    tries = [now_s for now_s in range(100, 131) if costs.is_worth_trying(Level.DISK, 10, float(now_s))]
    assert tries == [110, 120, 130]


def test_a_start_up_time_pays_only_with_many_blocks() -> None:
    costs = FetchCosts(block_tokens=10)
    costs.computed(1000, 1.0)
    for count in (1, 10, 100):
        costs.fetched(Level.DISK, count, 0.050 + 0.001 * count)
    assert costs.is_worth_trying(Level.DISK, 100, now_s=0.0)
    assert not costs.is_worth_trying(Level.DISK, 4, now_s=0.0)


def test_nobody_is_more_patient_than_it_takes_to_compute() -> None:
    costs = FetchCosts(block_tokens=10)
    assert costs.patience_s(100) == math.inf
    costs.computed(1000, 1.0)  # 10 ms a block
    assert costs.patience_s(100) == pytest.approx(1.0)
    assert 0.0 < costs.patience_s(1) < 0.25


def test_what_a_level_saves_is_known_once_computing_is_and_never_below_nothing() -> None:
    costs = FetchCosts(16)
    costs.fetched(Level.REDIS, 2, 0.5)
    assert costs.saved_s(Level.REDIS, 4) == 0.0
    costs.computed(32, 1.0)  # half a second a block; a fetched one takes a quarter
    assert costs.saved_s(Level.REDIS, 4) == pytest.approx(4 * (0.5 - 0.25))
    assert costs.saved_s(Level.HOST, 4) == pytest.approx(4 * 0.5)
    assert costs.saved_s(Level.HOST, 0) == 0.0
    costs.fetched(Level.DISK, 1, 2.0)
    assert costs.saved_s(Level.DISK, 4) == 0.0
