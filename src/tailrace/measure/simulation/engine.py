"""The step loop with a pretended device and a pretended clock: what a workload would meet, faster than it could."""

from collections import deque
from collections.abc import Sequence

from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.errors import EngineError, Overloaded, RequestError
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.cost import NoisyCost
from tailrace.measure.simulation.outcome import Outcome
from tailrace.measure.simulation.seam import PADDING, PlanMaker
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.types import TokenEvent

__all__ = ["SimulatedEngine"]

_TOKEN_ID = 7
_TICK_S = 1e-3  # an engine with work but without a step looks again so soon
_PATIENCE_S = 60.0  # for an engine that makes no step though it has work


class SimulatedEngine:
    """Any plan maker behind the intake of the engine, on a device that computes nothing and takes `cost` for it."""

    def __init__(self, planner: PlanMaker, cost: NoisyCost, intake: IntakeConfig) -> None:
        self._planner = planner
        self._cost = cost
        self._now_s = 0.0
        self._arrived_s = 0.0  # the latest arrival, maybe during a step
        self._intake = Intake(intake, clock=lambda: self._arrived_s)
        self._idle_since_s = 0.0

    def run(self, arrivals: Sequence[Arrival]) -> Outcome:
        """All arrivals, in order of time, until each has its answer. Raises EngineError if one never gets it."""
        outcome = Outcome.of(arrivals)
        coming, number = deque(arrivals), 0
        while coming or self._planner.has_work:
            while coming and coming[0].at_s <= self._now_s:
                self._submit(coming.popleft(), number, outcome)
                number += 1
            self._take_in(outcome)
            if not self._step(outcome):
                self._pass_time(coming)
        if num_left := sum(not one.has_ended for one in outcome.served.values()):
            raise EngineError(f"{num_left} requests got no answer, and the plan maker says that it has no work")
        return outcome

    def _submit(self, arrival: Arrival, number: int, outcome: Outcome) -> None:
        self._arrived_s = arrival.at_s
        try:
            self._intake.submit(arrival.request(number))
        except Overloaded as error:
            outcome.served[arrival.request_id].refuse(error.reason)

    def _take_in(self, outcome: Outcome) -> None:
        for request in self._intake.take().requests:
            try:
                self._planner.add(request)
            except RequestError as error:
                if not isinstance(error, Overloaded):
                    raise
                outcome.served[request.request_id].refuse(error.reason)
                self._intake.ended(request.request_id, self._now_s)
        self._publish(self._planner.expire(self._now_s), outcome)

    def _step(self, outcome: Outcome) -> bool:
        plan = self._planner.plan(self._now_s)
        if plan is None:
            return False
        for entry in plan.entered:
            self._intake.started(entry.request_id, self._now_s)
        took_s = self._cost.seconds(plan.size)
        self._idle_since_s = self._now_s = self._now_s + took_s
        self._publish(self._planner.commit(_result(plan), self._now_s), outcome)
        self._count(plan, took_s, outcome)
        return True

    def _publish(self, events: Sequence[TokenEvent], outcome: Outcome) -> None:
        outcome.take(events, self._now_s)
        for event in events:
            if event.finish_reason is not None:
                self._intake.ended(event.request_id, self._now_s)

    def _count(self, plan: StepPlan, took_s: float, outcome: Outcome) -> None:
        stats = self._planner.stats
        outcome.num_steps += 1
        outcome.busy_s += took_s
        outcome.num_tokens += plan.num_tokens
        outcome.num_padding_tokens += sum([part.num_tokens for part in plan.slices if part.request_id == PADDING])
        outcome.num_held_blocks_s += stats.num_blocks_used * took_s
        outcome.num_blocks_total = stats.num_blocks_total
        outcome.num_preempted = stats.num_preempted_total
        if stats.predicted_s is not None:
            outcome.step_errors.append(abs(stats.predicted_s - took_s) / took_s)
        for record in self._planner.drain_records():
            outcome.served[record.request_id].predicted_ttft_s = record.predicted_ttft_s

    def _pass_time(self, coming: Sequence[Arrival]) -> None:
        """Nothing can be computed now: wait for the next arrival, or a moment for a plan maker that waits itself."""
        due_s = self._now_s + _TICK_S if self._planner.has_work else float("inf")
        if coming:
            due_s = min(due_s, coming[0].at_s)
        if not self._planner.has_work:
            self._idle_since_s = due_s
        if due_s - self._idle_since_s > _PATIENCE_S:
            raise EngineError("the plan maker has work and makes no step of it")
        self._now_s = max(self._now_s, due_s) if due_s < float("inf") else self._now_s


def _result(plan: StepPlan) -> StepResult:
    return StepResult(
        plan.step_id, tuple([SampledToken(part.request_id, _TOKEN_ID) for part in plan.slices if part.is_sampled])
    )
