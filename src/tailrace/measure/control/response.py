"""The controller's step response: what its levers and the gaps do after something has changed at once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tailrace.measure.control.plant import Conditions, Device, Plant, Sample, Workload
from tailrace.scheduler.controller import Controller, ControllerConfig
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["DEFAULT_BEND", "DEFAULT_NOISE", "FORMULAS", "SCENARIOS", "Response", "Scenario", "Trial", "num_turns"]

FORMULAS = {
    "settled": "from the change on, until P99 stays below 1.15 times the target and enough KV memory stays free",
    "overshoot": "largest P99 of a second's gaps after the change, over target",
    "turns": "how often a lever goes back by 15% or more of where it had come to",
    "P99": "of the gaps between tokens in the last second, but for one slow step, over target",
}
"""How each figure comes about."""

DEFAULT_BEND = 2.0
DEFAULT_NOISE = 0.02

_LEAD_S = 20.0  # before the change: what comes from the start has passed
_SHOWN_S = 3.0  # of that
_AFTER_S = 20.0
_SETTLED_RATIO = 1.15
_TURN = 0.15


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    before: Conditions
    after: Conditions


SCENARIOS = (
    Scenario("load doubles", Conditions(28), Conditions(56)),
    Scenario("load halves", Conditions(56), Conditions(28)),
    Scenario("memory squeezed", Conditions(40), Conditions(40, taken_share=0.55)),
    Scenario("steps 2.5 times as long", Conditions(28), Conditions(28, slowdown=2.5)),
)


@dataclass(frozen=True, slots=True)
class Response:
    """Samples from shortly before the change, which is at 0 s; times are None where it did not settle."""

    name: str
    settled_s: float | None
    overshoot: float  # 0: never over target
    num_turns: dict[str, int]  # of each lever
    samples: tuple[Sample, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"samples": [sample._asdict() for sample in self.samples]}


@dataclass(frozen=True, slots=True)
class Trial:
    """All but the scenario."""

    workload: Workload
    model: StepTimeModel
    config: ControllerConfig = field(default_factory=ControllerConfig)
    bend: float = DEFAULT_BEND
    noise: float = DEFAULT_NOISE
    seed: int = 0

    def respond(self, scenario: Scenario) -> Response:
        samples = self._samples(scenario)
        after = [sample for sample in samples if sample.at_s >= 0.0]
        return Response(
            name=scenario.name,
            settled_s=self._settled_s(after),
            overshoot=max(max(sample.p99_ratio for sample in after) - 1.0, 0.0),
            num_turns={
                "batch": num_turns([float(sample.max_running) for sample in after]),
                "pace": num_turns([sample.pace for sample in after]),
            },
            samples=samples,
        )

    def _samples(self, scenario: Scenario) -> tuple[Sample, ...]:
        device = Device(self.model, self.bend, self.noise, self.seed)
        plant = Plant(self.workload, self.model, device, Controller(self.config))
        plant.meet(scenario.before)
        plant.run_until(_LEAD_S - _SHOWN_S)
        samples, has_changed = [], False
        for index in range(round((_SHOWN_S + _AFTER_S) / self.config.period_s)):
            at_s = index * self.config.period_s - _SHOWN_S
            if at_s >= 0.0 and not has_changed:
                plant.meet(scenario.after)
                has_changed = True
            plant.run_until(_LEAD_S + at_s)
            samples.append(plant.sample()._replace(at_s=at_s))
        return tuple(samples)

    def _settled_s(self, after: Sequence[Sample]) -> float | None:
        unsettled = [sample.at_s for sample in after if not self._is_settled(sample)]
        if not unsettled:
            return 0.0
        settled_s = unsettled[-1] + self.config.period_s
        return settled_s if settled_s <= after[-1].at_s else None

    def _is_settled(self, sample: Sample) -> bool:
        return sample.p99_ratio <= _SETTLED_RATIO and sample.free_share >= self.config.min_free_share


def num_turns(values: Sequence[float], share: float = _TURN) -> int:
    """How often the values turn back by `share` or more of their last extreme. Going one way alone is no turn."""
    low = high = values[0]
    turns, direction = 0, 0
    for value in values:
        low, high = min(low, value), max(high, value)
        if direction <= 0 and value >= low * (1.0 + share):
            turns, direction, high = turns - direction, 1, value
        elif direction >= 0 and value <= high * (1.0 - share):
            turns, direction, low = turns + direction, -1, value
    return turns
