from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import SetupError
from tailrace.kvcache.reservation import ExpectedLengths, RecentLengths, ReservationConfig


def lengths(*observed: int, config: ReservationConfig | None = None) -> ExpectedLengths:
    expected = ExpectedLengths(config)
    for num_tokens in observed:
        expected.observe("chat", num_tokens)
    return expected


def test_the_quantile_and_a_tenth_more_are_expected() -> None:
    assert lengths(*range(1, 101)).expected("chat", 1_000) == 105  # 95 * 1.1 = 104.5


def test_no_more_is_expected_than_the_request_may_say() -> None:
    assert lengths(500).expected("chat", 80) == 80


def test_an_unknown_class_is_expected_to_say_nothing() -> None:
    assert lengths(500).expected("batch", 80) == 0


def test_one_long_answer_among_twenty_does_not_count() -> None:
    assert lengths(*[10] * 19, 5_000).expected("chat", 10_000) == 11


def test_half_of_the_answers_are_no_longer_than_the_usual_one() -> None:
    expected = lengths(1, 5, 9)
    assert (expected.usual("chat"), expected.usual("batch")) == (5, 0)


def test_only_the_latest_answers_count() -> None:
    config = ReservationConfig(num_recent=4)
    assert lengths(900, 900, 900, 10, 10, 10, 10, config=config).expected("chat", 1_000) == 11


def test_the_class_unused_for_longest_is_forgotten() -> None:
    expected = ExpectedLengths(ReservationConfig(max_classes=2))
    for name in ("a", "b", "a", "c"):
        expected.observe(name, 10)
    assert [expected.expected(name, 100) for name in "abc"] == [11, 0, 11]


@pytest.mark.parametrize(
    "fields", [{"quantile": 0.0}, {"quantile": 1.5}, {"margin": -0.1}, {"num_recent": 0}, {"max_classes": 0}]
)
def test_senseless_settings_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(SetupError):
        ReservationConfig(**fields)  # type: ignore[arg-type]  # whole numbers among them


@given(st.lists(st.integers(1, 50), min_size=1), st.floats(0.01, 1.0), st.integers(1, 20))
def test_a_quantile_is_the_least_length_that_enough_do_not_exceed(
    observed: list[int], share: float, num_recent: int
) -> None:
    recent, latest = RecentLengths(num_recent), deque[int](maxlen=num_recent)
    for num_tokens in observed:
        recent.add(num_tokens)
        latest.append(num_tokens)
    quantile = recent.quantile(share)
    assert len(recent) == len(latest)
    assert sum(length <= quantile for length in latest) >= share * len(latest) - 1e-9
    assert quantile == min(latest) or sum(length < quantile for length in latest) < share * len(latest)
