from pathlib import Path
from statistics import median

import msgspec
import pytest

from tailrace.errors import SetupError
from tailrace.measure.simulation.cost import NoisyCost, default_cost, read_cost
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import StepTimeModel
from tests.support.costs import constant_cost

SIZE = StepSize(32, 32, 1000, 1000)


def test_the_recorded_cost_of_the_default_model_is_one_of_milliseconds() -> None:
    one, many = (default_cost().predict(StepSize(rows, rows, 100 * rows, 100 * rows)) for rows in (1, 32))
    assert one is not None
    assert many is not None
    assert 0.001 < one < many < 0.2


def test_noise_is_a_factor_around_one() -> None:
    noisy = NoisyCost(constant_cost(2.0), 0.1, seed=0)
    factors = [noisy.seconds(SIZE) / 2.0 for _ in range(2000)]
    assert median(factors) == pytest.approx(1.0, abs=0.02)
    assert 1.2 < max(factors) < 2.0


def test_noise_repeats_with_its_seed() -> None:
    first, again, other = (NoisyCost(constant_cost(2.0), 0.1, seed).seconds(SIZE) for seed in (1, 1, 2))
    assert first == again != other


def test_no_noise_changes_nothing() -> None:
    assert NoisyCost(constant_cost(0.5, 0.25), 0.0, seed=0).seconds(SIZE) == 0.5 + 32 * 0.25


def test_a_file_has_the_model_under_step_time(tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    file.write_bytes(msgspec.json.encode({"machine": "mine", "step_time": constant_cost(0.5).to_dict()}))
    assert read_cost(file).predict(SIZE) == 0.5


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"step_time": {}}', msgspec.json.encode({"step_time": StepTimeModel().to_dict()})]
)
def test_a_file_that_has_none_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "cost.json"
    file.write_bytes(data)
    with pytest.raises(SetupError, match=r"cost\.json"):
        read_cost(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"none\.json"):
        read_cost(tmp_path / "none.json")
