"""Policies on the same arrivals: capacity is found, time is stretched to a load, and each policy is run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tailrace.engine.intake import IntakeConfig
from tailrace.measure.simulation.arrivals import Arrival, Burst, at_rate, burst
from tailrace.measure.simulation.cost import NoisyCost
from tailrace.measure.simulation.engine import SimulatedEngine
from tailrace.measure.simulation.outcome import Outcome
from tailrace.measure.simulation.policies.catalog import Bounds, classes_of, make_planner
from tailrace.measure.simulation.report import SimulationReport, make_report
from tailrace.scheduler.steptime import StepTimeModel

__all__ = ["Load", "Trial"]

_SATURATED_SHARE = 0.95  # of the answers; while the last ones end, there is no longer enough to do


@dataclass(frozen=True, slots=True)
class Load:
    """Arrivals a second, as a share of the capacity; of a burst, while it is quiet."""

    share: float = 1.0
    kind: Literal["trace", "burst"] = "trace"
    burst: Burst = field(default_factory=Burst)


@dataclass(frozen=True, slots=True)
class Trial:
    """Everything but the policy."""

    arrivals: Sequence[Arrival]
    cost: StepTimeModel
    bounds: Bounds
    max_queued: int = 1024
    noise: float = 0.05
    seed: int = 0

    def run(self, policy: str) -> SimulationReport:
        return make_report(policy, self._run(policy, self.max_queued), self.bounds.classes)

    def capacity(self) -> float:
        """Requests a second that the scheduler completes, first come first served, while there are always more."""
        at_once = replace(self, arrivals=[replace(arrival, at_s=0.0) for arrival in self.arrivals])
        ends_s = sorted(one.token_s[-1] for one in at_once._run("fcfs", len(self.arrivals)).served.values())
        count = max(round(_SATURATED_SHARE * len(ends_s)), 1)
        return count / ends_s[count - 1]

    def loaded(self, load: Load, capacity: float) -> "Trial":
        """The same requests at the times that make this load."""
        rate = load.share * capacity
        if load.kind == "burst":
            return replace(self, arrivals=burst(self.arrivals, rate, load.burst, self.seed))
        return replace(self, arrivals=at_rate(self.arrivals, rate))

    def _run(self, policy: str, max_queued: int) -> Outcome:
        cost = NoisyCost(self.cost, self.noise, self.seed)
        most_tokens = self.bounds.max_model_tokens
        classes = classes_of(policy, self.bounds)
        intake = IntakeConfig(max_queued, max_queued * most_tokens, most_tokens, classes=classes)
        known = StepTimeModel.from_dict(self.cost.to_dict())
        return SimulatedEngine(make_planner(policy, self.bounds, known), cost, intake).run(self.arrivals)
