import math

import pytest

from tailrace.scheduler.pid import Gains, Lever, Pid

GAINS = Gains(0.8, 0.02, 0.3)


def test_the_output_is_the_weighted_sum_of_error_past_and_slope() -> None:
    pid = Pid(GAINS)
    assert pid.step(1.0) == pytest.approx(0.8 + 0.02 + 0.3 * 0.5)
    assert pid.step(2.0) == pytest.approx(0.8 * 2 + 0.02 * 3 + 0.3 * 0.75)
    assert pid.step(2.0) == pytest.approx(0.8 * 2 + 0.02 * 5 + 0.3 * 0.375)


def test_the_sum_stands_still_while_the_output_cannot_act() -> None:
    pid = Pid(Gains(0.0, 1.0, 0.0))
    for _ in range(1000):
        pid.step(1.0, is_held=True)
    assert pid.step(1.0) == 1.0


def test_the_sum_begins_anew_when_the_error_changes_its_sign() -> None:
    pid = Pid(Gains(0.0, 1.0, 0.0))
    for _ in range(10):
        pid.step(1.0)
    assert pid.step(-0.5) == -0.5


def test_a_quantity_that_follows_the_lever_comes_to_its_goal_and_stays() -> None:
    lever = Lever(GAINS, 1.0, 100.0)
    distances = []
    for _ in range(15):
        lever.move(-math.log(lever.value / 20.0))
        distances.append(lever.value / 20.0)
    assert min(distances) > 0.8
    assert distances[10:] == pytest.approx([1.0] * 5, abs=0.02)


def test_a_lever_that_was_held_for_long_leaves_its_end_at_once() -> None:
    lever = Lever(GAINS, 1.0, 100.0)
    for _ in range(1000):
        lever.move(0.7)
    lever.move(-0.1)
    assert lever.value < 100.0


def test_a_lever_keeps_to_its_ends() -> None:
    lever = Lever(GAINS, 2.0, 50.0)
    lever.relax(1.5, num_samples=1e9)
    assert lever.value == 50.0
    lever.cut(1e-9)
    assert lever.value == 2.0
    lever.relax(2.0, num_samples=3)
    assert lever.value == 16.0
    lever.limit(10.0)
    lever.limit(20.0)
    assert lever.value == 10.0


def test_a_lever_at_rest_does_not_make_good_for_its_last_move() -> None:
    lever = Lever(GAINS, 1.0, 100.0)
    lever.move(-0.5)
    moved = lever.value
    lever.rest()
    assert lever.value == moved
