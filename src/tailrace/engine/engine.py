"""The step loop: drain the inbox, answer, plan, run, commit, publish. The only place where the two columns meet."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tailrace.classes import ServiceClasses
from tailrace.engine.control import CacheControl
from tailrace.engine.governor import Governor
from tailrace.engine.guidance import Guidance
from tailrace.engine.guide_making import Made
from tailrace.engine.intake import Intake, IntakeMessages
from tailrace.engine.lives import Beginnings
from tailrace.engine.recorder import Recorder
from tailrace.engine.wall_time import WallTime
from tailrace.engine.watch import StepWatch, Unwatched
from tailrace.errors import InvalidRequest, ModelError, Overloaded, RequestError, TailraceError
from tailrace.records import EnginePart, KvRecord, RecordSink, StepProfile
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler
from tailrace.types import CacheAnswer, FinishReason, Refusal, Request, TokenEvent

__all__ = ["Engine", "PlanRunner", "Publish", "Reply"]

logger = logging.getLogger(__name__)

_LOOK_SHARE = 0.05  # of a step, what a look into the intake may take while streams wait for the next
_IDLE_LOOK_S = 0.05

Publish = Callable[[Sequence[TokenEvent]], None]
Reply = Callable[[CacheAnswer], None]


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
        reply: Reply,
        emit: RecordSink,
        watch: StepWatch | None = None,
        guidance: Guidance | None = None,
        governor: Governor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._intake = intake
        self._control = CacheControl(scheduler.cache, scheduler.below, reply, clock)
        self._publish = publish
        self._emit = emit
        self._watch = watch or Unwatched()
        self._guidance = guidance
        self.governor = governor or Governor((), scheduler, emit)
        self._clock = clock
        self._look_s = _IDLE_LOOK_S
        self._recorder = Recorder(scheduler, clock)
        self.wall_time = WallTime(clock)
        self._beginnings = Beginnings(scheduler.fetch_s)
        # Held from before the first hears of something until all records of it are out: who takes it sees both or none.
        self.telling = threading.Lock()

    @property
    def classes(self) -> ServiceClasses:
        """The service classes, with the targets that they have now. May be asked from any thread."""
        return self._scheduler.classes

    def run_forever(self) -> None:
        """Step until the intake is closed. A failing step ends the loop, and every live request with an error.

        The levels below are closed with it.
        """
        try:
            self._step_on()
        except ModelError as error:  # a part of the model is read while it runs, and cannot be
            logger.error("the engine ends: %s", error)
            self._fail_all(f"the engine ended: {error}")
        except Exception:
            logger.exception("the step loop failed")
            self._fail_all("the engine failed; see the server's log")
        else:
            self._fail_all("the engine was stopped")
        finally:
            self._close()

    def run(self) -> None:
        """As `run_forever`, but what fails is raised, and no request hears of it: somebody else hands them back."""
        try:
            self._step_on()
        finally:
            self._close()

    def _close(self) -> None:
        if self._guidance is not None:
            self._guidance.close()
        self._scheduler.store.close()

    def _step_on(self) -> None:
        while self.drain_intake():
            self._watch.came_round(now_s := self._clock())
            self.governor.look(now_s)
            if not self.step():
                self.tidy()
                self._rest()

    def step(self) -> bool:
        """One step; False when there was nothing to do."""
        started_s = self._clock()
        self.wall_time.begin(EnginePart.PLAN, started_s)
        plan = self._scheduler.plan(started_s)
        if plan is None:
            self._look_s = _IDLE_LOOK_S
            return False
        planned_s = self._clock()
        self.wall_time.begin(EnginePart.COMPUTE, planned_s)
        if plan.entered or plan.left or plan.moves or plan.committed or plan.released:
            self._recorder.pool_changed()
        for entry in plan.entered:
            self._intake.started(entry.request_id, planned_s)
        self._beginnings.planned(plan.entered, planned_s)
        self._watch.step_began(plan, planned_s, self._scheduler.predicted_s)
        result = self._runner.run(plan)
        computed_s = self._clock()
        self.wall_time.begin(EnginePart.PUBLISH, computed_s)
        self._look_s = _LOOK_SHARE * (computed_s - started_s)
        self._beginnings.computed(plan, planned_s, computed_s)
        with self.telling:
            self._deliver(self._beginnings.told(self._commit(result, computed_s), computed_s))
            record = self._recorder.step(plan, started_s, planned_s, computed_s)
            self._emit(record)
            if result.ops:
                self._emit(StepProfile(plan.step_id, computed_s - planned_s, result.ops, bool(record.prompts)))
            self._tell()
        self.wall_time.begin(EnginePart.INTAKE, self._clock())
        return True

    def tidy(self) -> None:
        """What the KV pool wants done while there is no step."""
        now_s = self._clock()
        self.wall_time.begin(EnginePart.TIDY, now_s)
        before = self._recorder.load()
        plan = self._scheduler.tidy(now_s)
        if plan is not None:
            self._runner.run(plan)
        if (load := self._recorder.load()) != before:
            self._emit(load)
        self._tell()

    def drain_intake(self) -> bool:
        """Give up who waits too long, take in new requests and aborts, and answer questions; False once all is over.

        While more comes than can be taken in between two steps, the rest waits for the next.
        """
        due_s = self._scheduler.expiry_due_s
        if due_s is not None and due_s <= (now_s := self._clock()):
            with self.telling:
                self._deliver(self._scheduler.expire(now_s))
                self._tell()
        return not self._intake.has_news or self._take_in()

    def _take_in(self) -> bool:
        started_s = self._clock()
        while True:
            messages = self._intake.take_some()
            with self.telling:
                self._act_on(messages)
            if not messages.is_partial or self._clock() - started_s >= self._look_s:
                return not messages.is_closed

    def _act_on(self, messages: IntakeMessages) -> None:
        self._watch.taking_in(messages.requests)
        if messages.requests:
            self._beginnings.taken(messages.requests, self._clock())
        events = [event for request in messages.requests if (event := self._add(request)) is not None]
        if self._guidance is not None:
            events += [event for made in self._guidance.drain() if (event := self._add_made(made)) is not None]
        withdrawn = [*messages.withdrawn]
        for request_id, reason in messages.aborts:
            if (aborted := self._scheduler.abort(request_id, reason)) is not None:
                events.append(aborted)
            elif self._guidance is not None and (request := self._guidance.withdraw(request_id)) is not None:
                withdrawn.append((request, reason))
        for request, reason in withdrawn:
            events.append(TokenEvent(request.request_id, None, finish_reason=reason))
            self._emit(self._recorder.withdrawn(request, reason))
        self._deliver(events)
        for request_id, is_paused in messages.pauses:
            self._set_paused(request_id, is_paused=is_paused)
        for query in messages.queries:
            self._control.answer(query)
        self._tell()
        if messages.aborts or messages.queries:
            self._emit(self._recorder.load())

    def _add(self, request: Request) -> TokenEvent | None:
        """Hand a request to the scheduler, or have its guide made before; its end, if it is refused."""
        try:
            if request.guide is None:
                self._scheduler.add(request)
            elif self._guidance is not None:
                self._guidance.take(request)
            else:
                raise InvalidRequest("this engine follows no guides", param="guide")
        except RequestError as error:
            return _refused(request, error)
        return None

    def _add_made(self, made: Made) -> TokenEvent | None:
        """Hand a request whose guide was made to the scheduler."""
        request_id = made.request.request_id
        if isinstance(made.guide, TailraceError):
            return TokenEvent(request_id, None, finish_reason=FinishReason.ERROR, error=str(made.guide))
        self._watch.taking_in([made.request])
        try:
            self._scheduler.add(made.request)
        except RequestError as error:
            return _refused(made.request, error)
        if self._guidance is not None:
            self._guidance.admit(made)
        if made.is_paused:
            self._scheduler.pause(request_id)
        return None

    def _set_paused(self, request_id: str, *, is_paused: bool) -> None:
        if self._guidance is not None:
            self._guidance.set_paused(request_id, is_paused=is_paused)
        if is_paused:
            self._scheduler.pause(request_id)
        else:
            self._scheduler.proceed(request_id, self._clock())

    def _commit(self, result: StepResult, computed_s: float) -> list[TokenEvent]:
        """What came of a step. Those that no token was drawn for, since their guides have failed, end before."""
        if self._guidance is None:
            return self._scheduler.commit(result, computed_s)
        faulty = []
        for request_id, fault in self._guidance.take_faults().items():
            if (ended := self._scheduler.abort(request_id, FinishReason.ERROR)) is not None:
                faulty.append(ended._replace(error=fault))
        return [*faulty, *map(self._guidance.told, self._scheduler.commit(result, computed_s))]

    def _rest(self) -> None:
        """Wait for requests, until there is something to tidy, or somebody has waited for a level for long enough."""
        scheduler = self._scheduler
        if scheduler.store.levels:
            self._emit(self._recorder.load())  # without what was held only until it was saved
        now_s = self._clock()
        dues_s = (scheduler.tidy_due_s, scheduler.store.due_s, scheduler.expiry_due_s)
        rests_s = [max(due_s - now_s, 0.0) for due_s in dues_s if due_s is not None]
        if self._watch.rest_s is not None:
            rests_s.append(self._watch.rest_s)
        self.wall_time.begin(EnginePart.IDLE, now_s)
        self._intake.wait(min(rests_s, default=None))
        self.wall_time.begin(EnginePart.INTAKE, self._clock())

    def _deliver(self, events: Sequence[TokenEvent]) -> None:
        for event in events:
            if event.finish_reason is not None:
                self._recorder.pool_changed()
                self._intake.ended(event.request_id, self._clock())
                self._beginnings.ended(event.request_id)
                if self._guidance is not None:
                    self._guidance.ended(event.request_id)
        self._publish(events)

    def _tell(self) -> None:
        """Emit what became of requests and blocks."""
        for beginning in self._scheduler.entrance.drain_beginnings():
            self._emit(beginning)
        for record in self._scheduler.drain_records():
            self._emit(record)
        if facts := self._scheduler.drain_facts():
            self._emit(KvRecord(facts))

    def _fail_all(self, message: str) -> None:
        self._intake.close()  # first: whoever comes from now on is refused and not forgotten
        self._deliver(
            [
                TokenEvent(request_id, None, finish_reason=FinishReason.ERROR, error=message)
                for request_id in self._intake.request_ids
            ]
        )


def _refused(request: Request, error: RequestError) -> TokenEvent:
    """The end of a request that the scheduler did not take."""
    if isinstance(error, Overloaded):
        refusal = Refusal(error.reason, str(error), error.retry_after_s)
        return TokenEvent(request.request_id, None, finish_reason=FinishReason.ERROR, refusal=refusal)
    return TokenEvent(request.request_id, None, finish_reason=FinishReason.ERROR, error=str(error))
