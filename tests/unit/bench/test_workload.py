from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from tailrace.bench.workload import Arrivals, Workload
from tailrace.errors import SetupError


def gaps(arrivals: Arrivals, count: int, seed: int = 1) -> list[float]:
    return [later - earlier for earlier, later in pairwise(arrivals.due_s(count, seed))]


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    arrivals = Arrivals(concurrency=8, rate=5.0)

    assert arrivals.due_s(50, seed=3) == arrivals.due_s(50, seed=3)
    assert arrivals.due_s(50, seed=3) != arrivals.due_s(50, seed=4)


def test_poisson_arrivals_start_at_once_and_keep_the_rate() -> None:
    arrivals = Arrivals(concurrency=8, rate=5.0)
    found = gaps(arrivals, 20_000)

    assert arrivals.due_s(1, seed=1) == [0.0]
    assert min(found) >= 0
    assert fmean(found) == pytest.approx(1 / 5, rel=0.03)
    assert pstdev(found) == pytest.approx(1 / 5, rel=0.03), "exponential gaps deviate by their mean"


def test_burstiness_changes_how_uneven_arrivals_are_but_not_their_rate() -> None:
    bursty, even = (gaps(Arrivals(8, 5.0, burstiness), 20_000) for burstiness in (0.25, 100.0))

    assert fmean(bursty) == pytest.approx(1 / 5, rel=0.05)
    assert fmean(even) == pytest.approx(1 / 5, rel=0.05)
    assert pstdev(bursty) == pytest.approx(2 / 5, rel=0.1), "a gamma of shape k deviates by mean / sqrt(k)"
    assert pstdev(even) == pytest.approx(0.1 / 5, rel=0.1)


def test_without_a_rate_all_requests_are_due_at_once() -> None:
    assert Arrivals(concurrency=2).due_s(3, seed=1) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, None, 1.0), "concurrency"),
        ((1, 0.0, 1.0), "rate"),
        ((1, -3.0, 1.0), "rate"),
        ((1, float("inf"), 1.0), "rate"),
        ((1, float("nan"), 1.0), "rate"),
        ((1, 1.0, 0.0), "burstiness"),
    ],
)
def test_impossible_arrivals_are_refused(arguments: tuple[int, float | None, float], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        Arrivals(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 8, 8, 0), "num_requests"),
        ((1, 0, 8, 0), "prompt_tokens"),
        ((1, 8, 0, 0), "output_tokens"),
        ((1, 8, 8, 8), "shared prefix of 8"),
        ((1, 8, 8, -1), "shared prefix of -1"),
    ],
)
def test_impossible_workloads_are_refused(arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        Workload(*arguments)
