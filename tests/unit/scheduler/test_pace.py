import pytest

from tailrace.scheduler.pace import DEFAULT_RETRY_S, MAX_RETRY_S, MIN_RETRY_S, DrainPace


def test_the_wait_is_what_the_queue_takes_at_the_measured_pace() -> None:
    pace = DrainPace()
    for _ in range(50):
        pace.observe(100, 0.5)
    assert pace.retry_after_s(2_000) == pytest.approx(10.0)


def test_a_change_of_pace_is_learned() -> None:
    pace = DrainPace()
    for _ in range(500):
        pace.observe(1_000, 0.1)
    for _ in range(2_000):
        pace.observe(10, 0.1)
    assert pace.retry_after_s(2_000) == pytest.approx(20.0, rel=0.1)


def test_the_wait_has_bounds() -> None:
    pace = DrainPace()
    assert pace.retry_after_s(1_000_000) == DEFAULT_RETRY_S
    pace.observe(0, 1.0)
    assert pace.retry_after_s(1_000_000) == MAX_RETRY_S
    pace.observe(1_000_000, 0.1)
    assert pace.retry_after_s(10) == MIN_RETRY_S
