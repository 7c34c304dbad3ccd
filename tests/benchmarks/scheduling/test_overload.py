import json

import pytest

from benchmarks.scheduling.in_process import Settled
from benchmarks.scheduling.overload import FCFS, OURS, Overload, Rounds, azure_arrivals, measure_overload, show
from tailrace.classes import STANDARD
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.outcome import Outcome
from tailrace.measure.simulation.report import SimulationReport, make_report


def test_both_policies_meet_the_same_arrivals_in_each_round(tiny: Settled, capsys: pytest.CaptureFixture[str]) -> None:
    overload = Overload(seconds=0.05, num_rounds=2, num_saturating=10)
    rounds = measure_overload(tiny, overload)
    assert rounds.capacity > 0.0
    assert len(rounds.rounds) == 2
    for one in rounds.rounds:
        assert one[OURS].num_requests == one[FCFS].num_requests >= 2
    figures = json.loads(json.dumps(rounds.to_dict()))
    assert set(figures["attainment"][OURS]) == {"gold", "silver", "bronze"}
    show(rounds, overload)
    assert "goodput tailrace / fcfs" in capsys.readouterr().out


def _report(*ttfts_s: float) -> SimulationReport:
    outcome = Outcome.of([Arrival(f"r{number}", 0.0, 5, 1, "gold") for number in range(len(ttfts_s))])
    for one, ttft_s in zip(outcome.served.values(), ttfts_s, strict=True):
        one.token_s.append(ttft_s)
        one.is_complete = True
    return make_report(OURS, outcome, STANDARD)


def test_attainment_is_of_the_requests_of_all_rounds_and_goodput_their_mean() -> None:
    first, second = _report(0.5), _report(2.0, 3.0, 0.5)
    rounds = Rounds(1.0, 1.0, [{OURS: one} for one in (first, second)])
    assert rounds.attainment(OURS)["gold"] == pytest.approx(2 / 4)
    assert rounds.goodput(OURS) == pytest.approx((1 / 0.5 + 1 / 3.0) / 2)


def test_each_round_has_requests_of_its_own() -> None:
    assert azure_arrivals(20) != azure_arrivals(20, first=20)
    assert len(azure_arrivals(20, first=100_000)) == 20
