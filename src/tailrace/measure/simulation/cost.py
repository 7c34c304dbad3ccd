"""What a step costs on the pretended device: a step-time model that was recorded on a real one."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tailrace.errors import SetupError
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["NoisyCost", "default_cost", "read_cost", "recorded_s"]

_DEFAULT = "default-model-2-cores.json"


class _Recorded(msgspec.Struct):
    """As benchmarks.scheduling.simulated_vs_real writes it."""

    step_time: dict[str, Any]


class NoisyCost:
    """A cost of which each step takes a random multiple, around 1, lognormally spread by `sigma`."""

    def __init__(self, cost: StepTimeModel, sigma: float, seed: int) -> None:
        self._cost = cost
        self._sigma = sigma
        self._random = Random(f"noise {seed}")

    def seconds(self, size: StepSize) -> float:
        """Of the next step."""
        return recorded_s(self._cost, size) * self._random.lognormvariate(0.0, self._sigma)


def recorded_s(cost: StepTimeModel, size: StepSize) -> float:
    """Raises AssertionError where the cost knows too little, which a recorded one does not."""
    seconds = cost.predict(size)
    assert seconds is not None, "a recorded cost knows enough"
    return seconds


def default_cost() -> StepTimeModel:
    """The default model on two cores."""
    return _read(files("tailrace.measure").joinpath("data", _DEFAULT))


def read_cost(path: Path) -> StepTimeModel:
    """Raises SetupError for a file that cannot be read or holds no step-time model."""
    return _read(path)


def _read(file: Path | Traversable) -> StepTimeModel:
    try:
        model = StepTimeModel.from_dict(msgspec.json.decode(file.read_bytes(), type=_Recorded).step_time)
    except OSError as error:
        raise SetupError(f"cannot read the cost of steps from {file}: {error.strerror}") from error
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{file} holds no cost of steps: {error}") from error
    if model.predict(StepSize(1, 1, 1)) is None:
        raise SetupError(f"{file} holds a cost of steps that knows none")
    return model
