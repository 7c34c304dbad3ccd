from collections import Counter

import pytest

from tailrace.measure.simulation.arrivals import Arrival, Burst, Mix, at_rate, burst, from_trace, mean_rate
from tailrace.measure.simulation.trace import TracedRequest

TRACED = [TracedRequest(100.0 + number, 160 * number, 16) for number in range(1000)]
MIX = Mix({"gold": 20, "silver": 50, "bronze": 30}, num_tenants=3)


def test_a_trace_begins_at_zero_and_lengths_are_divided_but_never_to_nothing() -> None:
    first, second, *_ = from_trace(TRACED, MIX, 16)
    assert (first.at_s, first.num_prompt_tokens, first.num_output_tokens) == (0.0, 1, 1)
    assert (second.at_s, second.num_prompt_tokens, second.num_output_tokens) == (1.0, 10, 1)


def test_classes_come_as_often_as_their_weights_say_and_have_tenants_of_their_own() -> None:
    arrivals = from_trace(TRACED, MIX)
    counts = Counter(one.class_name for one in arrivals)
    assert counts["gold"] == pytest.approx(200, abs=40)
    assert counts["silver"] == pytest.approx(500, abs=50)
    assert len({one.tenant for one in arrivals}) == 9
    assert all(one.tenant.startswith(one.class_name) for one in arrivals)


def test_a_seed_repeats_the_draw_and_another_changes_it() -> None:
    assert from_trace(TRACED, MIX) == from_trace(TRACED, MIX)
    assert from_trace(TRACED, MIX) != from_trace(TRACED, Mix(MIX.weights, 3, seed=1))


def test_time_is_stretched_to_a_rate() -> None:
    arrivals = at_rate(from_trace(TRACED, MIX), 4.0)
    assert mean_rate(arrivals) == pytest.approx(4.0)
    assert arrivals[4].at_s == pytest.approx(1.0)


def test_a_burst_comes_so_many_times_as_fast() -> None:
    arrivals = burst(from_trace(TRACED, MIX), 2.0, Burst(factor=5.0), seed=0)
    assert mean_rate(arrivals[:400]) == pytest.approx(2.0, rel=0.2)
    assert mean_rate(arrivals[400:800]) == pytest.approx(10.0, rel=0.2)
    assert mean_rate(arrivals[800:]) == pytest.approx(2.0, rel=0.2)


def test_no_two_requests_begin_alike() -> None:
    arrival = Arrival("r", 2.0, num_prompt_tokens=4, num_output_tokens=3, class_name="gold", tenant="t")
    first, second = arrival.request(0), arrival.request(1)
    assert len(first.prompt_ids) == len(second.prompt_ids) == 4
    assert first.prompt_ids[0] != second.prompt_ids[0]
    assert (first.arrival_s, first.class_name, first.tenant, first.sampling.max_tokens) == (2.0, "gold", "t", 3)
