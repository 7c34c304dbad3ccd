"""What series gained between two moments, and quantiles of what was observed meanwhile."""

import pytest

from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.readings import Reading, Readings, Window
from tailrace.telemetry.series import Samples

DONE = Metric("done", Kind.COUNTER, "requests", "", labels=("class", "reason"))
ALL = Metric("all", Kind.COUNTER, "requests", "")
TOOK = Metric("took", Kind.HISTOGRAM, "seconds", "", labels=("class",), buckets=(1.0, 2.0, 4.0))


def reading(at_s: float, **series: Samples) -> Reading:
    metrics = {"done": DONE, "all": ALL, "took": TOOK}
    return Reading(at_s, [(metrics[name], samples) for name, samples in series.items()])


def window(before: Samples, after: Samples, name: str = "done") -> Window:
    readings = Readings(60.0)
    readings.add(reading(10.0, **{name: before}))
    readings.add(reading(14.0, **{name: after}))
    return readings.over(60.0)


def test_gains_are_summed_over_the_labels_that_are_not_named() -> None:
    before: Samples = [(("gold", "stop"), [5.0]), (("gold", "length"), [1.0]), (("bronze", "stop"), [7.0])]
    after: Samples = [(("gold", "stop"), [9.0]), (("gold", "length"), [2.0]), (("bronze", "stop"), [7.0])]
    seen = window(before, after)
    assert seen.gained(DONE, **{"class": "gold"}) == 5.0
    assert seen.gained(DONE, reason="stop") == 4.0
    assert seen.rate(DONE) == 5.0 / 4.0


def test_what_was_not_there_before_counts_from_zero_and_nothing_is_lost_twice() -> None:
    seen = window([(("gold", "stop"), [5.0])], [(("gold", "stop"), [2.0]), (("bronze", "stop"), [3.0])])
    assert seen.gained(DONE) == 3.0


def test_quantiles_lie_in_their_bucket_in_proportion() -> None:
    before: Samples = [(("gold",), [1.0, 0.0, 0.0, 0.0, 0.5])]
    after: Samples = [(("gold",), [1.0, 4.0, 4.0, 2.0, 30.0])]  # of 10 new ones, 4 in (1, 2], 4 in (2, 4], 2 above
    seen = window(before, after, "took")
    assert seen.quantile(TOOK, 0.2) == pytest.approx(1.5)
    assert seen.quantile(TOOK, 0.5) == pytest.approx(2.5)
    assert seen.quantile(TOOK, 0.99) == 4.0
    assert seen.quantile(TOOK, 0.5, **{"class": "gold"}) == pytest.approx(2.5)
    assert seen.quantile(TOOK, 0.5, **{"class": "none"}) is None
    assert seen.gained(TOOK) == 29.5


def test_a_share_of_nothing_is_not_known() -> None:
    readings = Readings(60.0)
    readings.add(reading(1.0, done=[(("gold", "stop"), [1.0])], all=[((), [4.0])]))
    assert readings.over(5.0).share(DONE, ALL) is None
    assert readings.over(5.0).rate(DONE) == 0.0
    readings.add(reading(2.0, done=[(("gold", "stop"), [2.0])], all=[((), [8.0])]))
    assert readings.over(5.0).share(DONE, ALL) == 0.25


def test_only_as_much_is_kept_as_windows_need() -> None:
    readings = Readings(10.0)
    for second in range(100):
        readings.add(reading(float(second), all=[((), [float(second)])]))
    assert readings.over(5.0).seconds == 5.0
    assert readings.over(1000.0).seconds <= 11.0
    assert readings.over(5.0).rate(ALL) == 1.0


def test_a_window_does_not_reach_back_behind_a_pause() -> None:
    readings = Readings(60.0)
    readings.add(reading(0.0, all=[((), [0.0])]))
    readings.add(reading(500.0, all=[((), [9.0])]))
    assert readings.over(5.0).rate(ALL) == 0.0


def test_observations_are_counted_over_all_label_sets() -> None:
    before: Samples = [(("gold",), [1.0, 2.0, 0.0, 0.0, 9.5])]
    after: Samples = [(("gold",), [2.0, 2.0, 1.0, 0.0, 14.0]), (("bronze",), [0.0, 0.0, 0.0, 6.0, 60.0])]
    seen = window(before, after, "took")
    assert (seen.first.num_observed(TOOK), seen.last.num_observed(TOOK)) == (3.0, 11.0)
    assert seen.observed_rate(TOOK) == 8.0 / 4.0
    assert seen.last.num_observed(DONE) == 0.0


def test_the_value_of_a_gauge_that_is_not_there_is_not_known() -> None:
    seen = reading(1.0, done=[(("gold", "stop"), [1.0]), (("gold", "length"), [2.0])])
    assert seen.value(DONE, **{"class": "gold"}) == 3.0
    assert seen.value(DONE, **{"class": "bronze"}) is None
    assert seen.value(ALL) is None
