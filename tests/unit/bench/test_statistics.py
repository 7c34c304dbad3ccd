import math

import pytest

from tailrace.bench.statistics import Spread, percentile, spread


def test_the_spread_of_known_numbers_is_what_a_hand_calculation_gives() -> None:
    # 2 4 4 4 5 5 7 9: mean 5, squared deviations 9 1 1 1 0 0 4 16 = 32, 32 / 8 = 4, root 2.
    result = spread([9, 4, 2, 5, 4, 7, 4, 5])

    assert (result.mean, result.median, result.std, result.p50) == (5.0, 4.5, 2.0, 4.5)
    assert result.p95 == pytest.approx(8.3)
    assert result.p99 == pytest.approx(8.86)


def test_values_are_scaled() -> None:
    assert spread([0.25, 0.75], 1e3).mean == 500.0


@pytest.mark.parametrize(("q", "expected"), [(0, 10.0), (25, 17.5), (50, 25.0), (100, 40.0)])
def test_a_percentile_lies_between_its_neighbours(q: float, expected: float) -> None:
    assert percentile([10.0, 20.0, 30.0, 40.0], q) == expected


def test_one_value_is_its_own_mean_and_percentiles() -> None:
    assert spread([3.0]) == Spread(3.0, 3.0, 0.0, 3.0, 3.0, 3.0)


def test_nothing_has_no_spread() -> None:
    assert spread([]) == Spread()


def test_a_far_outlier_does_not_drown_the_rest() -> None:
    assert spread([1e16, 1.0, -1e16]).mean == pytest.approx(1 / 3)
    assert math.isfinite(spread([1e150, 1.0]).std or math.inf)
