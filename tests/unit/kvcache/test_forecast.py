import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.kvcache.forecast import Forecast, ForecastConfig

COUNTS = st.lists(st.none() | st.floats(0, 1e6), max_size=120)
DAY = ForecastConfig(season_bins=24)


def forecast_of(counts: list[float | None], config: ForecastConfig = DAY) -> Forecast:
    forecast = Forecast(config)
    for count in counts:
        forecast.observe(count)
    return forecast


@given(COUNTS, st.integers(1, 60))
def test_whatever_was_seen_it_says_a_number_that_is_not_below_zero(counts: list[float | None], ahead: int) -> None:
    assert 0.0 <= forecast_of(counts).next(ahead) < 1e8


@given(st.floats(0, 1000), st.integers(1, 100), st.integers(1, 30))
def test_what_never_changes_is_foretold(count: float, num_bins: int, ahead: int) -> None:
    assert forecast_of([count] * num_bins).next(ahead) == pytest.approx(count, abs=1e-6)


def test_a_pattern_that_repeats_is_foretold_from_its_second_season_on() -> None:
    pattern = [100.0 * (hour in (9, 14)) + hour for hour in range(24)]
    forecast = forecast_of([*pattern, *pattern])
    assert [forecast.next(ahead) for ahead in range(1, 25)] == pytest.approx(pattern, rel=0.15, abs=3.0)


def test_bins_without_counting_change_nothing_but_the_place_in_the_season() -> None:
    pattern = [100.0 * (hour in (9, 14)) for hour in range(24)]
    away = forecast_of([*pattern, *pattern, *([None] * 9)])
    here = forecast_of([*pattern, *pattern])
    assert away.next(1) == pytest.approx(here.next(10), rel=0.01)


def test_nothing_is_foretold_before_anything_was_seen() -> None:
    assert forecast_of([]).next() == 0.0
    assert forecast_of([None, None]).next() == 0.0


def test_a_rise_is_followed_and_a_trend_fades() -> None:
    forecast = forecast_of([float(count) for count in range(20)], ForecastConfig(season_bins=1000, trend_gain=0.5))
    assert forecast.next(1) > 18.5
    assert forecast.next(1000) < 40.0


def test_over_days_with_noise_it_errs_less_than_the_last_value_does() -> None:
    draw = random.Random(1)
    counts = [50 + 40 * math.sin(math.tau * hour / 24) + draw.gauss(0, 8) for hour in range(24 * 14)]
    forecast, errors, last_errors = Forecast(DAY), [], []
    for index, count in enumerate(counts):
        if index >= 48:
            errors.append(abs(forecast.next() - count))
            last_errors.append(abs(counts[index - 1] - count))
        forecast.observe(count)
    assert sum(errors) < 0.9 * sum(last_errors)
