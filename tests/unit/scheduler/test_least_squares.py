import random
from itertools import cycle, islice

import pytest

from tailrace.scheduler.least_squares import Five, NonNegativeFit

TRUE = Five(4.0, 0.9, 0.4, 0.002, 0.001)


def value(c: Five, x: Five) -> float:
    return sum(each * of for each, of in zip(c, x, strict=True))


def draw(rng: random.Random) -> Five:
    return Five(1.0, rng.randrange(9, 65), rng.randrange(1, 9), rng.randrange(8_000), rng.randrange(16_000))


def taught(rng: random.Random, count: int = 1_000) -> NonNegativeFit:
    fit = NonNegativeFit(Five(1.0, 1.0, 1.0, 1.0, 1.0))
    for _ in range(count):
        x = draw(rng)
        fit.observe(x, value(TRUE, x))
    return fit


def error(fit: NonNegativeFit, x: Five, y: float) -> float:
    return abs(fit.predict(x) / y - 1.0)


def test_learns_the_coefficients_of_what_is_linear() -> None:
    assert taught(random.Random(1)).c == pytest.approx(TRUE, rel=0.02)


def test_noise_averages_out() -> None:
    rng = random.Random(2)
    fit, errors = taught(rng), []
    for _ in range(1_000):
        x = draw(rng)
        errors.append(error(fit, x, value(TRUE, x)))
        fit.observe(x, value(TRUE, x) * rng.lognormvariate(0.0, 0.1))
    assert sorted(errors)[500] < 0.03


def test_no_coefficient_becomes_negative() -> None:
    """Whatever is observed: here time falls with what the second feature counts."""
    rng = random.Random(3)
    fit = NonNegativeFit(Five(1.0, 1.0, 1.0, 1.0, 1.0))
    for _ in range(500):
        x = draw(rng)
        fit.observe(x, max(100.0 - x.v1 + rng.uniform(-20.0, 20.0), 0.1))
        assert min(fit.c) >= 0.0
    assert fit.c.v1 == 0.0


def test_one_outlier_does_not_bend_it() -> None:
    rng = random.Random(4)
    fit = taught(rng)
    x = draw(rng)
    fit.observe(x, 10.0 * value(TRUE, x))
    assert error(fit, x, value(TRUE, x)) < 0.02


def test_follows_when_everything_becomes_slower() -> None:
    rng = random.Random(5)
    fit = taught(rng)
    for _ in range(800):
        x = draw(rng)
        fit.observe(x, 2.0 * value(TRUE, x))
    assert fit.c == pytest.approx([2.0 * each for each in TRUE], rel=0.1)


def test_says_how_far_off_it_was_and_believes_no_more_than_is_usual() -> None:
    rng = random.Random(8)
    fit = taught(rng)
    x = draw(rng)
    assert fit.observe(x, 1.05 * fit.predict(x)) == pytest.approx(0.05)
    assert 0.05 < fit.observe(x, 10.0 * fit.predict(x)) < 0.2
    assert -0.3 < fit.observe(x, 0.1 * fit.predict(x)) < -0.05


def test_a_load_that_stays_the_same_takes_nothing_away_from_what_is_known_of_others() -> None:
    rng = random.Random(6)
    fit = taught(rng)
    same = Five(1.0, 16.0, 16.0, 5_000.0, 0.0)
    for _ in range(20_000):
        fit.observe(same, value(TRUE, same) * rng.lognormvariate(0.0, 0.05))
    others = [draw(rng) for _ in range(100)]
    assert max(error(fit, x, value(TRUE, x)) for x in others) < 0.05


def test_what_was_never_seen_keeps_its_coefficient() -> None:
    fit = NonNegativeFit(Five(1.0, 1.0, 1.0, 1.0, 0.5))
    for x in islice(cycle([Five(1.0, 2.0, 2.0, 30.0, 0.0), Five(1.0, 5.0, 5.0, 80.0, 0.0)]), 200):
        fit.observe(x, value(Five(1.0, 1.0, 1.0, 1.0, 0.0), x))
    assert fit.c.v4 == pytest.approx(0.5)


def test_stays_finite_over_all_magnitudes() -> None:
    rng = random.Random(7)
    fit = NonNegativeFit(Five(1e-6, 0.0, 0.0, 0.0, 0.0))
    for _ in range(5_000):
        x = Five(1.0, rng.randrange(1, 16_384), rng.randrange(64), rng.randrange(10**7), rng.randrange(10**9))
        fit.observe(x, 10.0 ** rng.uniform(-6.0, 3.0))
        assert 0.0 <= fit.predict(x) < float("inf")


def test_what_has_predicted_nothing_learns_all_the_same() -> None:
    fit = NonNegativeFit(Five(0.0, 0.0, 1.0, 0.0, 0.0))
    fit.observe(Five(0.0, 4.0, 0.0, 1.0, 1.0), 2.0)
    assert fit.predict(Five(0.0, 4.0, 0.0, 1.0, 1.0)) == pytest.approx(2.0)
    assert fit.c.v2 == 1.0
