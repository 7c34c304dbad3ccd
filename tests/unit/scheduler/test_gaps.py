import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.scheduler.gaps import Gap, GapWindow, upper_quantile


def gaps(*ratios: float) -> list[tuple[float, int]]:
    return [(ratio, 1) for ratio in ratios]


def test_of_many_steps_the_quantile_is_what_all_but_a_share_do_not_exceed() -> None:
    ratios = [(index / 1000, 1) for index in range(1000)]
    assert upper_quantile(ratios, 0.99) == pytest.approx(0.989)
    assert upper_quantile(ratios, 0.5) == pytest.approx(0.499)


def test_of_few_steps_one_that_was_slow_by_itself_is_left_out() -> None:
    assert upper_quantile(gaps(0.5, 0.6, 7.0), 0.99) == 0.6
    assert upper_quantile(gaps(0.5, 6.0, 7.0), 0.99) == 6.0


@pytest.mark.parametrize("ratios", [[], [1.5]])
def test_one_step_says_nothing(ratios: list[float]) -> None:
    assert upper_quantile(gaps(*ratios), 0.99) is None


def test_a_step_counts_for_each_of_its_streams() -> None:
    assert upper_quantile([(2.0, 1), (2.0, 1), (1.0, 198)], 0.99) == 1.0
    assert upper_quantile([(2.0, 2), (2.0, 1), (1.0, 197)], 0.99) == 2.0


@given(st.lists(st.tuples(st.floats(0.01, 100.0), st.integers(1, 64)), min_size=2), st.floats(0.5, 0.999))
def test_no_more_than_the_share_lies_above_but_for_the_one_step(ratios: list[tuple[float, int]], share: float) -> None:
    quantile = upper_quantile(ratios, share)
    assert quantile in [ratio for ratio, _ in ratios]
    above = [count for ratio, count in ratios if quantile is not None and ratio > quantile]
    assert len(above) <= 1 or sum(above) <= (1.0 - share) * sum(count for _, count in ratios)


def test_the_window_keeps_its_samples_and_tells_those_since_one() -> None:
    window = GapWindow(num_samples=2, max_steps=100)
    window.add(Gap(1.0, 1, 1.0))
    window.next_sample()
    window.add(Gap(2.0, 1, 1.0))
    assert [gap.ratio for gap in window.since(-1)] == [1.0, 2.0]
    assert [gap.ratio for gap in window.since(0)] == [2.0]
    assert (window.sample, window.num_fresh) == (1, 1)
    window.next_sample()
    assert [gap.ratio for gap in window.since(-1)] == [2.0]
    assert window.num_fresh == 0


def test_the_window_is_bounded() -> None:
    window = GapWindow(num_samples=2, max_steps=8)
    for index in range(1000):
        window.add(Gap(float(index), 1, 1.0))
    assert [gap.ratio for gap in window.since(-1)] == [float(index) for index in range(992, 1000)]


def test_a_step_is_paced_if_a_lower_pace_would_have_made_it_shorter() -> None:
    assert Gap(1.0, 1, 0.5).is_paced
    assert not Gap(1.0, 1, 1.0).is_paced
