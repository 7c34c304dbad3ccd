"""The step loop: drain the inbox, plan, run, commit, publish. The only place where the two columns meet."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tailrace.engine.intake import Intake
from tailrace.errors import RequestError
from tailrace.records import LoadRecord, RecordSink, StepRecord
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler
from tailrace.types import FinishReason, TokenEvent

__all__ = ["Engine", "PlanRunner", "Publish"]

logger = logging.getLogger(__name__)

Publish = Callable[[Sequence[TokenEvent]], None]


class PlanRunner(Protocol):
    """The device column as the engine sees it."""

    def run(self, plan: StepPlan) -> StepResult: ...


class Engine:
    def __init__(
        self,
        scheduler: Scheduler,
        runner: PlanRunner,
        intake: Intake,
        *,
        publish: Publish,
        emit: RecordSink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._intake = intake
        self._publish = publish
        self._emit = emit
        self._clock = clock
        self._live: set[str] = set()

    def run_forever(self) -> None:
        """Step until the intake is closed. A failing step ends the loop, and every live request with an error."""
        try:
            while self.drain_intake():
                if not self.step():
                    self._intake.wait()
        except Exception:
            logger.exception("the step loop failed")
            self._fail_all("the engine failed; see the server's log")
        else:
            self._fail_all("the engine was stopped")

    def step(self) -> bool:
        """One step; False when there was nothing to do."""
        started_s = self._clock()
        plan = self._scheduler.plan(started_s)
        if plan is None:
            return False
        planned_s = self._clock()
        for entry in plan.entered:
            self._intake.left_queue(entry.request_id, planned_s)
        result = self._runner.run(plan)
        computed_s = self._clock()
        self._deliver(self._scheduler.commit(result, computed_s))
        self._emit(self._record(plan, started_s, planned_s, computed_s))
        for record in self._scheduler.drain_records():
            self._emit(record)
        return True

    def drain_intake(self) -> bool:
        """Take in new requests and aborts; False once the intake is closed."""
        messages = self._intake.take()
        refused = []
        for request in messages.requests:
            try:
                self._scheduler.add(request)
                self._live.add(request.request_id)
            except RequestError as error:
                refused.append(TokenEvent(request.request_id, None, finish_reason=FinishReason.ERROR, error=str(error)))
        aborted = [self._scheduler.abort(request_id, reason) for request_id, reason in messages.aborts]
        self._deliver([*refused, *(event for event in aborted if event is not None)])
        for record in self._scheduler.drain_records():
            self._emit(record)
        if messages.aborts:
            self._emit(self._load())
        return not messages.is_closed

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        for event in events:
            if event.finish_reason is not None:
                self._live.discard(event.request_id)
                self._intake.left_queue(event.request_id, self._clock())
        self._publish(events)

    def _fail_all(self, message: str) -> None:
        self._intake.close()  # first: whoever comes from now on is refused and not forgotten
        waiting = [request.request_id for request in self._intake.take().requests]
        self._deliver(
            [
                TokenEvent(request_id, None, finish_reason=FinishReason.ERROR, error=message)
                for request_id in (*self._live, *waiting)
            ]
        )

    def _load(self) -> LoadRecord:
        stats = self._scheduler.stats
        return LoadRecord(
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_blocks_used=stats.num_blocks_used,
            num_blocks_cached=stats.num_blocks_cached,
            num_blocks_total=stats.num_blocks_total,
        )

    def _record(self, plan: StepPlan, started_s: float, planned_s: float, computed_s: float) -> StepRecord:
        stats = self._scheduler.stats
        num_tokens, num_sampled, num_context_tokens = 0, 0, 0
        for part in plan.slices:
            num_tokens += part.num_tokens
            num_sampled += part.is_sampled
            num_context_tokens += part.start + part.num_tokens
        return StepRecord(
            step_id=plan.step_id,
            started_s=started_s,
            planned_s=planned_s,
            computed_s=computed_s,
            finished_s=self._clock(),
            num_tokens=num_tokens,
            num_sampled=num_sampled,
            num_prefill_tokens=sum(
                part.num_tokens for part in plan.slices if part.num_tokens > 1 or not part.is_sampled
            ),
            num_context_tokens=num_context_tokens,
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_preempted=stats.num_preempted_total,
            num_blocks_used=stats.num_blocks_used,
            num_blocks_cached=stats.num_blocks_cached,
            num_blocks_total=stats.num_blocks_total,
        )
