"""What the simulated engine drives: anything that makes plans as the scheduler does."""

from typing import Protocol

from tailrace.records import RequestRecord
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.types import Request, TokenEvent

__all__ = ["PADDING", "PlanMaker", "PlanStats"]

PADDING = ""
"""The request of slices that compute nothing for anybody. They cost what others cost."""


class PlanStats(Protocol):
    @property
    def num_running(self) -> int: ...

    @property
    def num_waiting(self) -> int: ...

    @property
    def num_preempted_total(self) -> int: ...

    @property
    def num_blocks_used(self) -> int: ...

    @property
    def num_blocks_total(self) -> int: ...

    @property
    def predicted_s(self) -> float | None:
        """Of the step that was planned last; None where nothing is predicted."""


class PlanMaker(Protocol):
    """`plan` is None while there is nothing to run, though there may be work; it is asked again soon then."""

    @property
    def has_work(self) -> bool: ...

    @property
    def stats(self) -> PlanStats: ...

    def add(self, request: Request) -> None:
        """Raises RequestError for what it refuses."""

    def expire(self, now_s: float) -> list[TokenEvent]:
        """Give up who has waited for too long."""

    def plan(self, now_s: float) -> StepPlan | None: ...

    def commit(self, result: StepResult, now_s: float) -> list[TokenEvent]: ...

    def drain_records(self) -> list[RequestRecord]: ...
