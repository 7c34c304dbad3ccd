import gc

from tailrace.telemetry.gc_pauses import GcPauses
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.series import LabelledHistogram


def counts(pauses: GcPauses) -> dict[str, int]:
    """Observations by generation."""
    (series,) = pauses.series
    assert isinstance(series, LabelledHistogram)
    return {labels[0]: sum(histogram.counts) for labels, histogram in series.histograms.items()}


def test_a_collection_shows_up_under_its_generation() -> None:
    pauses = GcPauses()
    gc.disable()
    try:
        with pauses.watching():
            gc.collect()
            gc.collect(0)
            gc.collect(0)
    finally:
        gc.enable()
    assert counts(pauses) == {"0": 2, "1": 0, "2": 1}


def test_a_pause_lasts_from_the_start_of_a_collection_to_its_end() -> None:
    times_s = iter([10.0, 10.25])
    pauses = GcPauses(clock=lambda: next(times_s))
    gc.disable()
    try:
        with pauses.watching():
            gc.collect(1)
    finally:
        gc.enable()
    (series,) = pauses.series
    assert isinstance(series, LabelledHistogram)
    assert series.of("1").sum == 0.25


def test_who_does_not_watch_any_more_sees_nothing() -> None:
    before, pauses = list(gc.callbacks), GcPauses()
    with pauses.watching():
        assert len(gc.callbacks) == len(before) + 1
    gc.collect()
    assert gc.callbacks == before
    assert sum(counts(pauses).values()) == 0


def test_pauses_are_among_the_metrics_of_a_server() -> None:
    metrics = Metrics(model_name="tiny", version="0")
    with metrics.gc_pauses.watching():
        gc.collect()
    shown = metrics.render("text/plain")[0].decode()
    assert 'tailrace_gc_pause_seconds_count{generation="2"} 1.0' in shown
