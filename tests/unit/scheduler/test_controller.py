import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.errors import SetupError
from tailrace.scheduler.controller import Control, Controller, ControllerConfig

PERIOD_S = 0.25  # somewhat longer than the controller's


class Clock:
    """A controller and its time, in periods: each is longer than a sample."""

    def __init__(self, config: ControllerConfig | None = None) -> None:
        self.controller = Controller(config or ControllerConfig())
        self.num_periods = 0

    def period(
        self, ratios: Iterable[float] = (), *, count: int = 64, share: float = 1.0, free: float = 1.0
    ) -> Control:
        """What it says after a period with these gaps."""
        for ratio in ratios:
            self.controller.observe(ratio, count, share)
        self.num_periods += 1
        return self.controller.control(self.num_periods * PERIOD_S, count, free)


def test_it_begins_with_all_that_the_bounds_allow() -> None:
    assert Clock().period(count=0) == Control(64, 1.0)


def test_gaps_on_target_change_nothing() -> None:
    clock = Clock()
    for _ in range(50):
        control = clock.period([0.99] * 4)
    assert control == Control(64, 1.0)


def test_long_gaps_without_prompts_take_places() -> None:
    clock = Clock()
    first, second = clock.period([1.3] * 4), clock.period([1.3] * 4, count=52)
    assert 48 <= first.max_running <= 54
    assert second.max_running < first.max_running


def test_long_gaps_of_steps_with_prompts_lower_the_pace_alone() -> None:
    control = Clock().period([1.3] * 4, share=0.5)
    assert control.max_running == 64
    assert control.pace == pytest.approx(1.3**-0.97, rel=0.01)


def test_the_pace_grows_again_when_gaps_allow() -> None:
    clock = Clock()
    low = clock.period([1.7] * 4, share=0.5).pace
    paces = [clock.period([0.8] * 4, share=0.5).pace for _ in range(20)]
    assert paces[5] == low  # what was too much is not forgotten yet
    assert paces[-1] > 1.1 * low


def test_once_the_pace_is_at_its_least_places_go_as_well() -> None:
    clock = Clock()
    for _ in range(10):
        control = clock.period([1.5] * 4, share=0.5)
    assert control.pace == 0.25
    assert control.max_running < 64


def test_one_slow_step_changes_nothing() -> None:
    assert Clock().period([0.9, 0.9, 50.0, 0.9]) == Control(64, 1.0)


def test_far_off_target_the_whole_factor_is_taken_at_once() -> None:
    assert Clock().period([2.0] * 4).max_running == 32
    assert Clock().period([2.0] * 4, share=0.4).pace == 0.5


def test_a_cut_counts_from_those_that_run() -> None:
    assert Clock().period([2.0] * 4, count=40).max_running == 20


def test_what_is_under_way_is_not_cut_twice() -> None:
    clock = Clock()
    first = clock.period([2.0] * 4, count=60)
    for _ in range(10):
        assert clock.period([1.9] * 4, count=58).max_running == first.max_running  # nobody has ended yet


def test_the_batch_does_not_grow_beyond_what_those_to_come_will_fill() -> None:
    clock = Clock(ControllerConfig(min_batch=1))
    clock.period([3.0] * 4, count=30)
    for _ in range(100):
        control = clock.period([0.8] * 4, count=10)
    assert 12 <= control.max_running <= 14


def test_who_is_far_below_target_gets_all_places() -> None:
    clock = Clock()
    clock.period([3.0] * 4, count=30)
    for _ in range(30):
        control = clock.period([0.3] * 4, count=10)
    assert control.max_running == 64


def test_without_load_it_relaxes() -> None:
    clock = Clock()
    clock.period([9.0] * 4, share=0.3, free=0.1)
    clock.period([9.0] * 4)
    assert clock.period(count=0).max_running < 64
    for _ in range(10):
        control = clock.period(count=0)
    assert control == Control(64, 1.0)


def test_a_long_pause_relaxes_it_in_one_go() -> None:
    clock = Clock()
    clock.period([9.0] * 4)
    clock.num_periods += 100
    assert clock.period(count=0).max_running == 64


def test_little_free_memory_halves_the_batch_at_once_and_again_when_the_rest_has_left() -> None:
    clock = Clock()
    assert clock.period([0.5] * 4, count=50, free=0.14).max_running == 25
    assert clock.period([0.5] * 4, count=30, free=0.14).max_running == 25
    assert clock.period([0.5] * 4, count=25, free=0.14).max_running == 12
    assert clock.period([0.5] * 4, count=12, free=0.14).max_running == 8


def test_near_the_least_memory_nothing_grows() -> None:
    clock = Clock()
    clock.period([0.5] * 4, count=50, free=0.1)
    bounds = [clock.period([0.5] * 4, count=25, free=0.2).max_running for _ in range(50)]
    assert set(bounds) == {25}


def test_with_memory_the_batch_grows_slowly() -> None:
    clock = Clock()
    clock.period([0.5] * 4, count=50, free=0.1)
    bounds = [clock.period([0.5] * 4, count=25, free=0.4).max_running for _ in range(100)]
    assert all(now <= later <= 1.1 * now for now, later in pairwise(bounds))
    assert bounds[-1] == 64


def test_the_tighter_of_gaps_and_memory_rules() -> None:
    assert Clock().period([2.0] * 4, count=48, free=0.1).max_running == 24
    assert Clock().period([3.0] * 4, count=48, free=0.1).max_running == 16


def test_it_acts_once_in_a_period() -> None:
    controller = Controller(ControllerConfig())
    controller.control(10.0, 64, 1.0)
    for _ in range(4):
        controller.observe(2.0, 64)
    assert controller.control(10.19, 64, 1.0) == Control(64, 1.0)
    assert controller.control(10.21, 64, 1.0).max_running == 32


def test_where_steps_are_long_it_waits_for_two() -> None:
    clock = Clock()
    assert clock.period([2.0]).max_running == 64
    assert clock.period([2.0]).max_running == 32


def test_a_last_gap_by_itself_does_not_hold_it_up_when_only_prompts_run_from_then_on() -> None:
    clock = Clock()
    for _ in range(20):
        clock.period([3.0] * 4)
    clock.period()
    clock.period([0.5])
    assert [clock.period() for _ in range(20)][-1] == Control(64, 1.0)
    assert clock.period(count=40, free=0.1).max_running == 20


@pytest.mark.parametrize(("max_running", "bounds"), [(1, (1, 1)), (4, (4, 4)), (32, (8, 32)), (256, (8, 256))])
def test_the_bounds_follow_the_places_of_the_server(max_running: int, bounds: tuple[int, int]) -> None:
    config = ControllerConfig.up_to(max_running)
    assert (config.min_batch, config.max_batch) == bounds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kp", -0.1),
        ("ki", math.nan),
        ("kd", math.inf),
        ("period_s", 0.0),
        ("min_batch", 0),
        ("min_batch", 65),
        ("min_pace", 0.0),
        ("min_pace", 1.1),
        ("min_free_share", 0.3),
        ("free_share_goal", 1.0),
        ("fast_ratio", 1.0),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: float) -> None:
    values: dict[str, Any] = {name: value}
    with pytest.raises(SetupError, match=f"controller's {name} must be .*, not {value}"):
        ControllerConfig(**values)


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.floats(0.0, 1e9), st.integers(0, 100), st.floats(0.0, 1.0)), max_size=5),
            st.floats(0.0, 1e6),
            st.integers(0, 100),
            st.floats(-1.0, 1.0),
        ),
        max_size=30,
    )
)
def test_whatever_it_is_told_it_keeps_its_bounds(
    periods: list[tuple[list[tuple[float, int, float]], float, int, float]],
) -> None:
    controller, now_s = Controller(ControllerConfig()), 0.0
    for gaps, later_s, num_running, free_share in periods:
        for ratio, count, share in gaps:
            controller.observe(ratio, count, share)
        now_s += later_s
        max_running, pace = controller.control(now_s, num_running, free_share)
        assert 8 <= max_running <= 64
        assert 0.25 <= pace <= 1.0
