"""Medians over rounds, the best peer of each figure, and whether an aim is met."""

import pytest

from benchmarks.peers.aims import AIMS, Aim
from benchmarks.peers.rounds import Measurement
from benchmarks.peers.standings import Standing, standings
from benchmarks.serving.figures import ITL_P50, ITL_P99, OUTPUT_RATE, TTFT_P50
from tests.benchmarks.peers.scripted import measurement

GAP = Aim("W1", ITL_P50, 0.5)
RATE = Aim("W1", OUTPUT_RATE, 1.9)


def only(measurements: list[Measurement], aim: Aim) -> Standing:
    (standing,) = standings(measurements, "us", [aim])
    return standing


def w1(engine: str, *gaps_s: float) -> list[Measurement]:
    """One run in each round."""
    return [measurement(engine, "W1", index, gap_s=gap_s) for index, gap_s in enumerate(gaps_s)]


def test_an_engine_is_judged_by_its_median() -> None:
    standing = only([*w1("us", 0.002, 0.009, 0.003), *w1("them", 0.01)], GAP)
    assert standing.medians == pytest.approx({"us": 3.0, "them": 10.0})
    assert standing.ratio == pytest.approx(0.3)


def test_the_best_peer_of_a_time_is_the_quickest() -> None:
    assert only([*w1("us", 0.001), *w1("slow", 0.02), *w1("quick", 0.01)], GAP).best_peer == "quick"


def test_the_best_peer_of_a_rate_is_the_one_with_most() -> None:
    assert only([*w1("us", 0.001), *w1("slow", 0.02), *w1("quick", 0.01)], RATE).best_peer == "quick"


def test_we_are_not_our_own_peer() -> None:
    standing = only(w1("us", 0.001), GAP)
    assert (standing.best_peer, standing.ratio, standing.is_met) == (None, None, None)


def test_each_round_has_its_own_ratio_to_the_best_of_that_round() -> None:
    runs = [*w1("us", 0.001, 0.002), *w1("early", 0.004, 0.01), *w1("late", 0.01, 0.004)]
    assert only(runs, GAP).in_rounds == pytest.approx([0.25, 0.5])


def test_a_peer_that_sat_out_a_round_is_no_peer_in_it() -> None:
    assert only([*w1("us", 0.001, 0.002), *w1("them", 0.004)], GAP).in_rounds == pytest.approx([0.25])


@pytest.mark.parametrize(("ratio", "is_met"), [(0.49, True), (0.5, True), (0.51, False)])
def test_a_time_may_be_at_most_its_aim(ratio: float, is_met: bool) -> None:
    assert GAP.is_met(ratio) is is_met
    assert str(GAP) == "<= 0.50"


@pytest.mark.parametrize(("ratio", "is_met"), [(1.89, False), (1.9, True), (2.0, True)])
def test_a_rate_must_be_at_least_its_aim(ratio: float, is_met: bool) -> None:
    assert RATE.is_met(ratio) is is_met
    assert str(RATE) == ">= 1.90"


def test_a_workload_that_was_not_run_stands_nowhere() -> None:
    assert standings([measurement("us", "W1"), measurement("them", "W2")], "us", [Aim("W2", OUTPUT_RATE, 1.0)]) == []


def test_a_figure_that_a_workload_does_not_have_stands_nowhere() -> None:
    runs = [measurement("us", "W5"), measurement("them", "W5")]
    assert standings(runs, "us", [Aim("W5", ITL_P99, 0.5)]) == []
    assert len(standings(runs, "us", [Aim("W5", TTFT_P50, 0.5)])) == 1


def test_every_workload_has_an_aim() -> None:
    assert sorted({aim.workload for aim in AIMS}) == ["W1", "W2", "W3", "W4", "W5"]
