"""The benchmark of forgetting runs, and says what it should."""

from benchmarks.kvcache.invalidation import BOUNDS_MS, figures, measure


def test_three_processes_forget_a_prompt() -> None:
    rows = measure(num_rounds=2, num_blocks=5, num_kept=100)
    assert [row.what for row in rows] == list(BOUNDS_MS)
    assert all(0 < row.median_ms <= row.max_ms for row in rows)


def test_figures_are_medians_and_worst_cases_in_milliseconds() -> None:
    (row,) = figures({"engine elsewhere": [0.001, 0.050, 0.002]})
    assert (row.median_ms, row.max_ms, row.bound_ms) == (2.0, 50.0, 100.0)
