"""What a window keeps: what is within it, in bounded memory."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.rules.window import LatestValues, WindowSums

EVENTS = st.lists(st.tuples(st.floats(0, 10), st.integers(-5, 100)), max_size=80)


@given(EVENTS)
def test_sums_are_those_of_the_window_give_or_take_a_cell(events: list[tuple[float, int]]) -> None:
    sums, now_s = WindowSums(2, 60.0), 0.0
    seen: list[tuple[float, int]] = []
    for wait_s, amount in events:
        now_s += wait_s
        sums.add((amount, 1), now_s)
        seen.append((now_s, amount))
    _, count = sums.totals(now_s)
    kept = seen[len(seen) - int(count) :]
    assert sums.totals(now_s)[0] == sum(amount for _, amount in kept)
    assert all(now_s - at_s <= 63.0 for at_s, _ in kept)
    assert all(now_s - at_s >= 60.0 for at_s, _ in seen[: len(seen) - int(count)])


def test_memory_is_bounded_however_much_comes() -> None:
    sums, values = WindowSums(1, 10.0), LatestValues(10.0)
    for moment in range(10_000):
        sums.add((1,), moment / 100)
        values.add(moment, moment / 100)
    assert len(sums._cells) <= 21
    assert values.count(99.99) == 500


def test_nothing_is_left_of_what_was_before_the_window() -> None:
    sums, values = WindowSums(1, 10.0), LatestValues(10.0)
    sums.add((5,), 0.0)
    values.add(5, 0.0)
    assert sums.totals(11.0) == (0.0,)
    assert values.count(10.5) == 0


@pytest.mark.parametrize("num_values", [1, 2, 20, 99, 100, 101, 400])
def test_of_so_many_values_no_more_than_one_in_a_hundred_is_above_the_p99(num_values: int) -> None:
    values = LatestValues(10.0)
    for value in reversed(range(num_values)):
        values.add(value, 0.0)
    p99 = values.quantile(0.99)
    assert sum(value > p99 for value in range(num_values)) <= num_values / 100
    assert sum(value >= p99 for value in range(num_values)) > num_values / 100
    values.add(math.inf, 0.0)
    assert values.count(0.0) == num_values + 1
