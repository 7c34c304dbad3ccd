"""Records of what the engine does and of how full it is, from the scheduler's figures. Who emits them is the engine."""

from collections.abc import Callable

from tailrace.records import LoadRecord, PoolRecord, RequestRecord, StepRecord
from tailrace.scheduler.plan import SequenceSlice, StepPlan, StepSize
from tailrace.scheduler.scheduler import Scheduler
from tailrace.types import FinishReason, Request

__all__ = ["Recorder"]

_POOL_EVERY_S = 0.1


class Recorder:
    """Times are those of the engine's clock. To be asked between two steps only."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._pool: PoolRecord | None = None  # the latest, until something happens that it must show
        self._pool_s = 0.0

    def pool_changed(self) -> None:
        """The next step must show the pool as it is."""
        self._pool = None

    def load(self) -> LoadRecord:
        stats = self._scheduler.stats
        return LoadRecord(
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_blocks_used=stats.num_blocks_used,
            num_blocks_cached=stats.num_blocks_cached,
            num_blocks_total=stats.num_blocks_total,
            pool=self._scheduler.pool_record,
            running_by_class=stats.running_by_class,
            waiting_by_class=stats.waiting_by_class,
            num_deferred=stats.num_deferred,
        )

    def withdrawn(self, request: Request, reason: FinishReason) -> RequestRecord:
        """Of a request that ended before the scheduler knew of it."""
        return RequestRecord(
            request_id=request.request_id,
            arrived_s=request.arrival_s,
            started_s=None,
            first_token_s=None,
            finished_s=self._clock(),
            num_prompt_tokens=request.num_prompt_tokens,
            prefix=None,
            num_output_tokens=0,
            num_preemptions=0,
            finish_reason=reason,
            is_warmup=request.is_warmup,
            class_name=self._scheduler.config.classes.named(request.class_name).name,
            trace=request.trace,
            max_tokens=request.sampling.max_tokens,
            num_resumed_tokens=len(request.output_ids),
        )

    def step(self, plan: StepPlan, started_s: float, planned_s: float, computed_s: float) -> StepRecord:
        """Of the step that was committed last: when its plan was begun and was ready, and when its result was there."""
        stats = self._scheduler.stats
        size = self._scheduler.step_size
        prompts = _prompts(plan, size)
        return StepRecord(
            step_id=plan.step_id,
            started_s=started_s,
            planned_s=planned_s,
            computed_s=computed_s,
            finished_s=self._clock(),
            num_tokens=size.num_tokens,
            num_sampled=size.num_sampled,
            num_prefill_tokens=sum([part.num_tokens for part in prompts]),
            num_context_tokens=_num_context_tokens(plan, size),
            num_read_tokens=size.num_read_tokens,
            num_alone_read_tokens=size.num_alone_read_tokens,
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_preempted=stats.num_preempted_total,
            num_blocks_used=stats.num_blocks_used,
            num_blocks_cached=stats.num_blocks_cached,
            num_blocks_total=stats.num_blocks_total,
            pool=self._pool_at(computed_s),
            preemptions=stats.preemptions,
            predicted_s=stats.predicted_s,
            running_by_class=stats.running_by_class,
            waiting_by_class=stats.waiting_by_class,
            target_scale=stats.target_scale,
            max_running=stats.max_running,
            pace=stats.pace,
            num_sequences=len(plan.slices),
            num_deferred=stats.num_deferred,
            prompts=tuple([(part.request_id, part.num_tokens) for part in prompts]),
        )

    def _pool_at(self, now_s: float) -> PoolRecord:
        """The pool after a step. While streams only go on it is looked at now and then: it costs more than they do."""
        if self._pool is None or now_s - self._pool_s >= _POOL_EVERY_S:
            self._pool, self._pool_s = self._scheduler.pool_record, now_s
        return self._pool


def _prompts(plan: StepPlan, size: StepSize) -> list[SequenceSlice]:
    """Slices of more than a sequence's newest token."""
    if size.num_tokens == size.num_sampled:  # as in most steps
        return []
    return [part for part in plan.slices if part.num_tokens > 1 or not part.is_sampled]


def _num_context_tokens(plan: StepPlan, size: StepSize) -> int:
    """KV rows that sequences see."""
    if size.num_tokens == len(plan.slices):  # a row each, as in most steps
        return size.num_read_tokens
    return sum(part.start + part.num_tokens for part in plan.slices)
