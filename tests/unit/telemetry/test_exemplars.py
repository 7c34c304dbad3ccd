"""Requests whose traces somebody keeps leave exemplars, others leave none."""

import time

import pytest

from tailrace.telemetry.exemplars import observer, observing, sampled_trace_id
from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.series import Histogram

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(("flags", "trace_id"), [("01", TRACE_ID), ("00", None), ("03", TRACE_ID), ("02", None)])
def test_a_trace_counts_when_its_flag_says_that_it_is_sampled(flags: str, trace_id: str | None) -> None:
    assert sampled_trace_id(f"00-{TRACE_ID}-b7ad6b7169203331-{flags}") == trace_id


def test_no_trace_is_none() -> None:
    assert sampled_trace_id("") is None


def test_an_observer_of_a_sampled_trace_leaves_the_latest_of_each_bucket() -> None:
    histogram = Histogram(Metric("h", Kind.HISTOGRAM, "seconds", "Help.", buckets=(1, 2)))
    observe = observer(f"00-{TRACE_ID}-b7ad6b7169203331-01")
    for value in (0.25, 0.5, 3):
        observe(histogram, value)
    assert {place: (each.trace_id, each.value) for place, each in histogram.exemplars.items()} == {
        0: (TRACE_ID, 0.5),
        2: (TRACE_ID, 3),
    }
    assert (histogram.counts, histogram.sum) == ([2, 0, 1], 3.75)


def test_an_observer_without_one_counts_and_leaves_nothing() -> None:
    histogram = Histogram(Metric("h", Kind.HISTOGRAM, "seconds", "Help.", buckets=(1, 2)))
    observer("")(histogram, 0.25)
    assert histogram.counts == [1, 0, 0]
    assert histogram.exemplars == {}


def test_what_is_observed_again_and_again_leaves_when_each_was(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 101.0])
    monkeypatch.setattr(time, "time", lambda: next(times))
    histogram = Histogram(Metric("h", Kind.HISTOGRAM, "seconds", "Help.", buckets=(1, 2)))
    observe = observing(histogram, f"00-{TRACE_ID}-b7ad6b7169203331-01")
    observe(0.25)
    observe(1.5)
    assert histogram.exemplars == {0: (TRACE_ID, 0.25, 100.0), 1: (TRACE_ID, 1.5, 101.0)}


def test_what_is_not_traced_is_observed_as_if_there_were_no_traces() -> None:
    histogram = Histogram(Metric("h", Kind.HISTOGRAM, "seconds", "Help.", buckets=(1, 2)))
    for trace in ("", f"00-{TRACE_ID}-b7ad6b7169203331-00"):
        assert observing(histogram, trace) == histogram.observe
