"""Workloads through the real engine in this thread: intake, scheduler, runner, model; no HTTP and no text.

What happens between two steps is what the server's step loop does. Arrivals are handed in between steps, as of the time
when they were due.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tailrace.app import build_engine
from tailrace.config import EngineConfig
from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.errors import Overloaded
from tailrace.loading import LoadedModel
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.outcome import Outcome
from tailrace.measure.simulation.policies.turns import FED_AHEAD
from tailrace.records import Record, RequestRecord, StepRecord
from tailrace.scheduler.budget import scale_of_targets
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.types import TokenEvent

__all__ = ["InProcess", "Settled", "say_progress"]

_NAP_S = 0.001
_SAY_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Settled:
    """A loaded model and the settings of an engine on it, as a server has them when it is ready.

    Targets of the classes are `target_scale` times as long as configured; engines begin with `step_times`.
    """

    model: LoadedModel
    config: EngineConfig
    step_times: Mapping[str, Any]
    target_scale: float

    @classmethod
    def on(cls, model: LoadedModel, config: EngineConfig) -> "Settled":
        """Takes a few small steps to know the machine."""
        step_times = model.calibrate()
        scale = scale_of_targets(step_times, config.classes.tightest_itl_s)
        config = replace(config, classes=config.classes.scaled(scale))
        return cls(model, config, step_times.to_dict(), scale)


class InProcess:
    """One engine on a loaded model, with an empty cache. Times are seconds since `begin`.

    `is_first_come`: requests wait outside and come in one after the other, without class or tenant.
    """

    def __init__(self, settled: Settled, *, is_first_come: bool = False) -> None:
        model, config = settled.model, settled.config
        self._is_first_come = is_first_come
        self._due_s: float | None = None  # of the arrival that is being handed in
        max_tokens = model.plan.max_request_tokens
        bounds = IntakeConfig(
            config.max_queued, config.max_queued_tokens, max_tokens, config.max_tenant_requests, config.classes
        )
        self._intake = Intake(bounds, self._clock)
        self._engine: Engine = build_engine(
            model,
            config,
            self._intake,
            self._publish,
            reply=lambda answer: None,
            emit=self._emit,
            step_times=StepTimeModel.from_dict(settled.step_times),
            target_scale=settled.target_scale,
        )
        self._numbers = count()
        self._open: set[str] = set()
        self._started_s = time.monotonic()
        self.steps: list[StepRecord] = []
        self.outcome = Outcome.of(())

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._started_s

    def begin(self, arrivals: Sequence[Arrival]) -> None:
        """From now on time counts."""
        self.outcome = Outcome.of(arrivals)
        self.steps.clear()
        self._started_s = time.monotonic()

    def submit(self, arrival: Arrival) -> None:
        """Hand in a request that was due at its time."""
        request = arrival.request(next(self._numbers))
        self._due_s = self._started_s + arrival.at_s
        self._open.add(request.request_id)
        try:
            self._intake.submit(replace(request, class_name="", tenant="") if self._is_first_come else request)
        except Overloaded as error:
            self.outcome.served[arrival.request_id].refuse(error.reason)
            self._open.discard(arrival.request_id)
        finally:
            self._due_s = None

    def step(self) -> bool:
        """Take in what came, and make a step if there is one to make."""
        self._engine.drain_intake()
        return self._engine.step()

    def run(self, arrivals: Sequence[Arrival], say: Callable[[str], None]) -> Outcome:
        """Each arrival at its time, until all have their answers; `say` is told now and then how far it is."""
        self.begin(arrivals)
        coming, said_s = deque(arrivals), 0.0
        while coming or self._open:
            while coming and coming[0].at_s <= self.now_s and self._has_turn:
                self.submit(coming.popleft())
            if not self.step():
                time.sleep(_NAP_S)
            if self.now_s - said_s >= _SAY_EVERY_S:
                said_s = self.now_s
                num_answered = len(arrivals) - len(coming) - len(self._open)
                say(f"{said_s:.0f} s, {num_answered:,} of {len(arrivals):,} requests answered")
        self._count_steps()
        return self.outcome

    @property
    def _has_turn(self) -> bool:
        return not self._is_first_come or self._intake.num_queued < FED_AHEAD

    def _clock(self) -> float:
        return time.monotonic() if self._due_s is None else self._due_s

    def _publish(self, events: Sequence[TokenEvent]) -> None:
        self.outcome.take(events, self.now_s)
        self._open.difference_update(event.request_id for event in events if event.finish_reason is not None)

    def _emit(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self.steps.append(record)
        elif isinstance(record, RequestRecord):
            self.outcome.served[record.request_id].predicted_ttft_s = record.predicted_ttft_s

    def _count_steps(self) -> None:
        outcome = self.outcome
        outcome.num_steps = len(self.steps)
        for record in self.steps:
            took_s = record.computed_s - record.planned_s
            outcome.busy_s += record.finished_s - record.started_s
            outcome.num_tokens += record.num_tokens
            outcome.num_held_blocks_s += record.num_blocks_used * (record.finished_s - record.started_s)
            outcome.num_blocks_total = record.num_blocks_total
            outcome.num_preempted = record.num_preempted
            if record.predicted_s is not None:
                outcome.step_errors.append(abs(record.predicted_s - took_s) / took_s)


def say_progress(what: str) -> Callable[[str], None]:
    """Lines on standard error."""
    return lambda text: print(f"{what}: {text}", file=sys.stderr, flush=True)
