"""Orders that know no targets, before a scheduler for which all requests are equal: first come, or classes in turn."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from tailrace.measure.simulation.seam import PlanMaker, PlanStats
from tailrace.records import RequestRecord
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.types import Request, TokenEvent

__all__ = ["FED_AHEAD", "Turns"]

FED_AHEAD = 8  # enough for a step of short prompts; what the scheduler sees is what it may put in another order


class Turns:
    """Keeps what waits in queues, one for each value of `turn_of`, and feeds a plan maker from one after the other."""

    def __init__(self, inner: PlanMaker, turn_of: Callable[[Request], str]) -> None:
        self._inner = inner
        self._turn_of = turn_of
        self._queues: dict[str, deque[Request]] = {}  # of those that have requests waiting, whose turn is next first

    @property
    def has_work(self) -> bool:
        return bool(self._queues) or self._inner.has_work

    @property
    def stats(self) -> PlanStats:
        return self._inner.stats

    def add(self, request: Request) -> None:
        self._queues.setdefault(self._turn_of(request), deque()).append(request)

    def expire(self, now_s: float) -> list[TokenEvent]:
        return self._inner.expire(now_s)

    def plan(self, now_s: float) -> StepPlan | None:
        while self._queues and self._inner.stats.num_waiting < FED_AHEAD:
            self._inner.add(replace(self._next(), class_name="", tenant="", arrival_s=now_s))
        return self._inner.plan(now_s)

    def commit(self, result: StepResult, now_s: float) -> list[TokenEvent]:
        return self._inner.commit(result, now_s)

    def drain_records(self) -> list[RequestRecord]:
        return self._inner.drain_records()

    def _next(self) -> Request:
        turn = next(iter(self._queues))
        queue = self._queues.pop(turn)
        request = queue.popleft()
        if queue:
            self._queues[turn] = queue
        return request
