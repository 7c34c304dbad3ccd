from pathlib import Path

import pytest

from benchmarks.kvcache.forecasting import ValueBefore, arrivals_per_bin, compare


def test_arrivals_are_counted_a_bin_and_the_last_one_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    seconds = (3.0, 4.5, 12.9, 13.0, 36.0)
    lines = [f"2023-11-16 18:17:{second:09.6f}0,100,10" for second in seconds]
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(lines) + "\n")
    assert arrivals_per_bin(file, 10.0) == [3.0, 1.0, 0.0]


def test_a_value_before_is_that_of_the_same_place_in_the_season() -> None:
    series = ValueBefore(3)
    for count in (1.0, 2.0, 3.0, 4.0):
        series.observe(count)
    assert [series.next(ahead) for ahead in (1, 2, 3, 4)] == [2.0, 3.0, 4.0, 2.0]


def test_where_there_is_a_season_those_who_know_it_err_less() -> None:
    counts = [10.0 + 30.0 * (index % 6 == 2) for index in range(120)]
    found = {(row.forecaster, row.num_bins): row.mae for row in compare(counts, season_bins=6)}
    assert found["value a season before", 1] == pytest.approx(0.0)
    assert found["Holt-Winters", 1] < 0.1 < found["last value", 1]
    assert found["mean so far", 6] < 0.1
