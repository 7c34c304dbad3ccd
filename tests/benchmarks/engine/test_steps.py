import pytest

from benchmarks.engine.clocked import CallTimes
from benchmarks.engine.steps import PARTS, ClockedStep, attribute, steady
from tests.benchmarks.engine.records import step_record


def clocked_step(started_s: float, *, num_tokens: int = 2, num_running: int = 2) -> ClockedStep:
    """Enters the back end after 2 ms, is 5 ms in native code, leaves after 7.5 ms, and publishes for 0.25 ms."""
    call = CallTimes(started_s + 0.002, 0.005, started_s + 0.0075)
    return ClockedStep(step_record(started_s, num_tokens=num_tokens, num_running=num_running), call, 0.00025)


def test_the_parts_of_a_step_fill_the_time_until_the_next() -> None:
    parts = clocked_step(1.0).parts_s(clocked_step(1.010))

    assert parts == pytest.approx(
        {
            "plan": 0.001,
            "arrays": 0.001,
            "binding": 0.0005,
            "native": 0.005,
            "results": 0.0005,
            "commit": 0.00075,
            "publish": 0.00025,
            "between": 0.001,
        }
    )
    assert sum(parts.values()) == pytest.approx(0.010)
    assert list(parts) == list(PARTS)


def test_only_steps_in_which_every_stream_and_nothing_else_moves_are_steady() -> None:
    steps = [
        clocked_step(1.0, num_tokens=18),  # a prompt
        clocked_step(2.0),
        clocked_step(3.0),
        clocked_step(4.0, num_tokens=1, num_running=1),  # one has ended
    ]
    assert [(one.record.started_s, other.record.started_s) for one, other in steady(steps, 2)] == [(2.0, 3.0)]


def test_shares_are_of_the_typical_step() -> None:
    steps = [clocked_step(0.0), clocked_step(0.010), clocked_step(0.020), clocked_step(1.0)]  # the last gap is noise
    found = attribute(2, list(steady(steps, 2)))

    assert found.num_steps == 3
    assert found.period_s == pytest.approx(0.010)
    assert found.outside_share == pytest.approx(0.5)


def test_too_short_a_run_is_said() -> None:
    with pytest.raises(ValueError, match="let them run longer"):
        attribute(2, [])
