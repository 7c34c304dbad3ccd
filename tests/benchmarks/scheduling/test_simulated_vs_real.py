from pathlib import Path

import pytest

from benchmarks.scheduling.in_process import Settled
from benchmarks.scheduling.overload import azure_arrivals
from benchmarks.scheduling.simulated_vs_real import compare, fitted, record, show, spread_of
from tailrace.measure.simulation.arrivals import at_rate
from tailrace.measure.simulation.cost import read_cost
from tailrace.scheduler.plan import StepSize
from tests.benchmarks.engine.records import step_record


def test_one_workload_goes_through_both_and_the_cost_is_kept(
    tiny: Settled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compare(tiny, at_rate(azure_arrivals(12), 100.0))
    rows = {name: (real, simulated) for name, real, simulated in comparison.rows()}
    assert all(real > 0.0 and simulated > 0.0 for real, simulated in rows.values())
    assert comparison.real.num_requests == comparison.simulated.num_requests == 12
    show(comparison)
    assert "TTFT P95 ms" in capsys.readouterr().out
    record(comparison, "tiny", tmp_path / "cost.json")
    size = StepSize(4, 4, 100, 100)
    assert read_cost(tmp_path / "cost.json").predict(size) == pytest.approx(comparison.cost.predict(size), abs=1e-9)


def test_a_cost_is_fitted_from_the_start_of_a_step_to_its_end() -> None:
    steps = [step_record(float(number), num_tokens=2, num_running=2) for number in range(50)]
    took_s = steps[0].finished_s - steps[0].started_s
    model = fitted(steps)
    assert model.predict(StepSize(2, 2, steps[0].num_read_tokens)) == pytest.approx(took_s, rel=0.05)
    assert spread_of(model, steps) == pytest.approx(0.0, abs=0.05)
