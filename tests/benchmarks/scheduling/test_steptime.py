"""The benchmark of the step-time model runs, on a model that takes no time, and records what can be loaded."""

import json
import random
from itertools import islice, pairwise
from pathlib import Path

import pytest

from benchmarks.scheduling.real_steps import RealSteps, Room, grid, traffic
from benchmarks.scheduling.steptime import CONFIG, Step, by_regime, drive, figures, learnt, main, shuffled
from tailrace.loading import load_model
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import REGIME_BOUNDS, StepTimeModel
from tailrace.weights.load import open_checkpoint


def test_everything_is_measured_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recorded.json"
    main(["--model", "tiny-deepseek", "--seconds", "0.5", "--json", "--record", str(path)])
    found = json.loads(capsys.readouterr().out)
    assert found["grid"]["all"]["num_steps"] >= 2
    assert found["traffic"]["all"]["num_steps"] >= 2
    assert min(found["cost_us"].values()) > 0.0
    recorded = json.loads(path.read_text("utf-8"))
    assert StepTimeModel.from_dict(recorded["step_time"]).predict(StepSize(8, 8, 800, 800)) is not None


def test_it_says_whether_the_aim_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--model", "tiny-deepseek", "--seconds", "0.2"])
    assert "under 10% wanted" in capsys.readouterr().out


def test_real_steps_are_of_the_size_that_was_asked_for() -> None:
    model = load_model(open_checkpoint("tiny-deepseek"), CONFIG)
    steps, model_of = RealSteps(model), StepTimeModel()
    for shape in (*grid(steps.room)[:12], *islice(traffic(random.Random(1), steps.room), 12)):
        size, took_s = steps.run(shape)
        assert size.num_tokens == sum(part.num_tokens for part in shape)
        assert took_s > 0.0
    found = drive(steps, model_of, shuffled([shape], random.Random(1)), 0.0)
    assert [step.size for step in found] == [size] * 2
    model.executable.close()


def test_the_grid_has_steps_of_all_regimes() -> None:
    num_tokens = [sum(part.num_tokens for part in shape) for shape in grid(Room(24_000, 4_096))]
    bounds = (0, *REGIME_BOUNDS, 10**6)
    assert all(any(low < each <= high for each in num_tokens) for low, high in pairwise(bounds))


def test_errors_noise_and_the_error_of_what_is_typical_are_told_apart() -> None:
    size = StepSize(4, 4, 40, 40)
    steps = [Step(0, size, 0.012, took_s) for took_s in (0.009, 0.010, 0.011)]
    found = figures(steps)
    assert found.median_error == pytest.approx(0.2)
    assert found.noise == pytest.approx(0.1)
    assert found.against_typical == pytest.approx(0.2)
    assert figures(steps[:2]).noise is None
    assert list(by_regime(steps)) == ["all", "to 8 rows"]


def test_what_is_learnt_for_simulations_is_what_a_quiet_machine_takes() -> None:
    size = StepSize(4, 4, 40, 40)
    steps = [Step(0, size, 0.012, took_s) for took_s in (0.010, 0.010, 0.010, 0.050)]
    assert learnt(steps, 512).predict(size) == pytest.approx(0.010)
