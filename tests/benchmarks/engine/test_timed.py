"""What timing costs is said of all steps, most of which are not timed."""

import pytest

from benchmarks.engine.__main__ import is_met
from benchmarks.engine.timed import cost_of_timing


def test_medians_are_of_neighbours_in_time() -> None:
    pairs = [(0.010, 0.011), (0.020, 0.0211), (0.030, 0.0312)]
    cost = cost_of_timing("1 stream", pairs, in_ops_s=[0.0055, 0.0211 * 0.9, 0.0312])

    assert cost.step_s == 0.020
    assert cost.extra_s == pytest.approx(0.0011)
    assert cost.ops_share == pytest.approx(0.9)
    assert cost.share == pytest.approx(0.0011 / 64 / 0.020)


@pytest.mark.parametrize(("extra_s", "expected"), [(0.0063, True), (0.0065, False)])
def test_one_hundredth_of_all_steps_is_too_much(extra_s: float, expected: bool) -> None:
    cost = cost_of_timing("1 stream", [(0.010, 0.010 + extra_s)], in_ops_s=[0.010])

    assert is_met([], None, [cost]) is expected
