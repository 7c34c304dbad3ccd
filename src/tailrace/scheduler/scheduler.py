"""Who runs in the next step, first come first served within a token budget. Pure: time comes in as an argument."""

from collections import deque
from dataclasses import dataclass

from tailrace.errors import EngineError, InvalidRequest, Overloaded
from tailrace.kvcache.cache import KvCache, PrefixMatch
from tailrace.records import RequestRecord
from tailrace.scheduler.admission import longest_sequence, refuse_what_cannot_run, stop_ids
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.draft import StepDraft
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.pace import DrainPace
from tailrace.scheduler.plan import SampledToken, SequenceSlice, StepPlan, StepResult
from tailrace.scheduler.queue import WaitingQueue
from tailrace.types import FinishReason, Request, TokenEvent

__all__ = ["Scheduler", "SchedulerConfig", "SchedulerStats"]

MAX_UNREAD_RECORDS = 16_384  # the oldest go first


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    num_running: int
    num_waiting: int  # ready and deferred
    num_deferred: int  # of num_waiting, those that wait for a shared prefix
    num_waiting_tokens: int
    num_preempted_total: int
    num_blocks_used: int
    num_blocks_cached: int
    num_blocks_total: int
    num_blocks_evicted_total: int
    num_query_tokens_total: int  # looked up in the prefix cache when first admitted
    num_hit_tokens_total: int  # of these, found


class Scheduler:
    """`plan` decides a step, `commit` takes its outcome; between the two only `add` and `abort` may be called.

    A request has tokens known and tokens computed, and a step closes part of the gap: first one token for each stream,
    then chunks of what was admitted, then newcomers. Blocks for all known tokens are taken at admission; with a window,
    as many as it reaches, and then more as chunks need them and blocks that no row sees any more come back.
    """

    def __init__(self, config: SchedulerConfig, cache: KvCache) -> None:
        self.config = config
        self._cache = cache
        self._eos_ids = frozenset(config.eos_ids)
        self._live: dict[str, LiveRequest] = {}
        self._running: dict[str, LiveRequest] = {}
        self._queue = WaitingQueue()
        self._left: list[str] = []  # leave the running set with the next plan
        self._parts: list[tuple[LiveRequest, SequenceSlice]] | None = None  # of the step under way
        self._records: deque[RequestRecord] = deque(maxlen=MAX_UNREAD_RECORDS)
        self._pace = DrainPace()
        self._num_arrived = 0
        self._num_preempted = 0
        self._num_admitted_tokens = 0
        self._step_id = 0
        self._planned_s = 0.0
        self._now_s = 0.0

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def stats(self) -> SchedulerStats:
        kv = self._cache.stats
        return SchedulerStats(
            num_running=len(self._running),
            num_waiting=len(self._queue),
            num_deferred=self._queue.num_deferred,
            num_waiting_tokens=self._queue.num_tokens,
            num_preempted_total=self._num_preempted,
            num_blocks_used=kv.num_used,
            num_blocks_cached=kv.num_cached,
            num_blocks_total=kv.num_total,
            num_blocks_evicted_total=kv.num_evicted,
            num_query_tokens_total=kv.num_query_tokens,
            num_hit_tokens_total=kv.num_hit_tokens,
        )

    def drain_records(self) -> list[RequestRecord]:
        """Facts of the requests that ended since the last call."""
        records = list(self._records)
        self._records.clear()
        return records

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises InvalidRequest or ContextTooLong for what can never run, Overloaded when the queue is full.
        """
        if request.request_id in self._live:
            raise InvalidRequest(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        refuse_what_cannot_run(request, self.config, self._cache.config)
        self._refuse_overload(request)
        max_length = longest_sequence(request, self.config)
        live = LiveRequest(
            request_id=request.request_id,
            request=request,
            arrival_rank=self._num_arrived,
            table=self._cache.open(request.cache_salt),
            token_ids=[*request.prompt_ids, *request.output_ids],
            max_length=max_length,
            max_blocks=self._cache.config.blocks_at_once(max_length - 1),  # the last token is never computed
            stop_ids=stop_ids(request.sampling, self.config),
        )
        self._num_arrived += 1
        self._live[request.request_id] = live
        self._queue.push(live)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> TokenEvent | None:
        """End a request in whatever phase it is, for `reason`; None when it is unknown or has ended.

        Its record ends at the latest time this scheduler has been told.
        """
        live = self._live.get(request_id)
        if live is None:
            return None
        self._end(live, reason)
        return TokenEvent(request_id, None, live.num_cached_tokens, reason)

    def plan(self, now_s: float) -> StepPlan | None:
        """The next step; None when nothing runs or waits. Blocks pass from one request to another only here."""
        if self._parts is not None:
            raise EngineError(f"step {self._step_id} was planned but not committed: commit it before the next plan")
        self._planned_s = self._now_s = now_s
        self._queue.wake(self._cache.is_in_flight)
        draft = StepDraft(self.config.budget_tokens)
        self._make_room()
        self._continue_running(draft)
        self._admit(draft)
        if not draft.parts:
            return None
        self._step_id += 1
        self._parts = draft.parts
        left, self._left = tuple(self._left), []
        return draft.plan(self._step_id, left)

    def commit(self, result: StepResult, now_s: float) -> list[TokenEvent]:
        """Take in what the step computed: seal blocks, give back what is out of sight, append tokens, end what is done.

        A sequence takes a block only once the one before is sealed, so this is soon enough to give one back for it.
        """
        parts = self._finish_step(result, now_s)
        sampled = iter(result.sampled)
        block_tokens = self._cache.config.block_tokens
        events: list[TokenEvent] = []
        for live, part in parts:
            token = next(sampled) if part.is_sampled else None
            if live.state is not RequestState.RUNNING:
                continue  # aborted while the step ran
            live.num_computed += part.num_tokens
            if live.num_computed // block_tokens > live.table.num_sealed:
                self._cache.seal(live.table, live.token_ids, live.num_computed)
                live.num_released += self._cache.slide(live.table, live.num_computed)
            if token is not None:
                events.append(self._deliver(live, token))
        return events

    def _refuse_overload(self, request: Request) -> None:
        waiting, config = self._queue, self.config
        num_tokens = waiting.num_tokens + request.num_prompt_tokens + len(request.output_ids)
        if not len(waiting):
            return  # what fits the model is never too much for an empty queue
        if len(waiting) >= config.max_waiting or num_tokens > config.max_waiting_tokens:
            retry_after_s = self._pace.retry_after_s(waiting.num_tokens)
            raise Overloaded(
                f"{len(waiting)} requests with {waiting.num_tokens} tokens wait already: "
                f"try again in {retry_after_s:.0f} s",
                retry_after_s=retry_after_s,
            )

    def _make_room(self) -> None:
        """Give each sequence the block its next token needs; when there is none, the latest arrivals pay."""
        needy = [live for live in self._running.values() if live.num_computed >= live.num_positions]
        for live in needy:
            while live.state is RequestState.RUNNING and not self._grow(live):
                self._preempt(max(self._running.values(), key=_arrival))

    def _grow(self, live: LiveRequest) -> bool:
        block_id = self._cache.grow(live.table)
        if block_id is None:
            return False
        live.new_blocks += (block_id,)
        live.num_positions += self._cache.config.block_tokens
        return True

    def _preempt(self, live: LiveRequest) -> None:
        """Take all blocks of a request. It resumes as prompt plus tokens so far, of which the cache may keep some."""
        self._stop_running(live)
        live.move(RequestState.WAITING)
        live.num_preemptions += 1
        self._num_preempted += 1
        self._queue.push(live)

    def _continue_running(self, draft: StepDraft) -> None:
        """One token for each stream, then chunks for those still behind."""
        behind = []
        for live in self._running.values():
            if len(live.token_ids) - live.num_computed == 1:
                draft.decode(live)
            else:
                behind.append(live)
        if draft.parts and self.config.chunk_tokens is not None:
            draft.budget_left = min(draft.budget_left, self.config.chunk_tokens)
        for live in behind:
            if draft.budget_left:
                self._fill(draft, live)

    def _admit(self, draft: StepDraft) -> None:
        """Let waiting requests start, in order, while there is budget, a place and blocks.

        One whose next blocks are being computed waits for them. That cannot last: who computes them is running, and if
        it leaves, the first that waited is next to lead.
        """
        queue, config = self._queue, self.config
        while draft.budget_left and len(self._running) < config.max_running and (live := queue.first) is not None:
            match = self._cache.match(live.table, live.token_ids)
            if match.awaited is not None:
                queue.defer(live, match.awaited)
            elif self._start(live, match):
                draft.enter(live)
                self._fill(draft, live)
            else:
                return

    def _fill(self, draft: StepDraft, live: LiveRequest) -> None:
        """Plan the next tokens of a gap, as far as there are blocks for them, but at least one.

        Only with a window are blocks still to be taken; what they are more than it reaches comes back after the step.
        """
        end = live.num_computed + draft.share_of(live)
        while live.num_positions < end and self._grow(live):
            pass
        draft.fill(live, min(end, live.num_positions) - live.num_computed)

    def _start(self, live: LiveRequest, match: PrefixMatch) -> bool:
        blocks = self._cache.acquire(live.table, match, len(live.token_ids), self._spare_blocks())
        if blocks is None:
            return False
        block_tokens = self._cache.config.block_tokens
        self._queue.remove(live)
        live.move(RequestState.RUNNING)
        self._running[live.request_id] = live
        live.new_blocks = blocks
        live.num_released = match.first
        live.num_positions = live.table.end * block_tokens
        live.num_computed = match.end * block_tokens
        if live.started_s is None:
            live.started_s = self._now_s
            live.num_cached_tokens = min(live.num_computed, live.request.num_prompt_tokens)
        self._num_admitted_tokens += len(live.token_ids)
        return True

    def _spare_blocks(self) -> int:
        """Blocks to leave for the streams beside a newcomer: with one each, it does not preempt them at once.

        A request alone needs none: `add` made sure that it fits.
        """
        return sum(live.may_need_blocks for live in self._running.values())

    def _finish_step(self, result: StepResult, now_s: float) -> list[tuple[LiveRequest, SequenceSlice]]:
        """Check the result against its plan, and note how fast the queue drained."""
        parts = self._parts
        if parts is None or result.step_id != self._step_id:
            raise EngineError(
                f"the result of step {result.step_id} was committed, but {self._step_id} is the last planned"
            )
        num_sampled = sum(part.is_sampled for _, part in parts)
        if len(result.sampled) != num_sampled:
            raise EngineError(f"step {result.step_id} should sample {num_sampled} tokens, not {len(result.sampled)}")
        if len(self._queue) or self._num_admitted_tokens:
            self._pace.observe(self._num_admitted_tokens, now_s - self._planned_s)
        self._parts = None
        self._num_admitted_tokens = 0
        self._now_s = now_s
        return parts

    def _deliver(self, live: LiveRequest, token: SampledToken) -> TokenEvent:
        if token.request_id != live.request_id:
            raise EngineError(f"a token of {token.request_id!r} came where one of {live.request_id!r} was due")
        live.token_ids.append(token.token_id)
        if live.first_token_s is None:
            live.first_token_s = self._now_s
        reason = live.finish_reason()
        if reason is not None:
            self._end(live, reason)
        return TokenEvent(
            live.request_id, token.token_id, live.num_cached_tokens, reason, token.logprob, token.top_logprobs
        )

    def _end(self, live: LiveRequest, reason: FinishReason) -> None:
        if live.state is RequestState.RUNNING:
            self._stop_running(live)
        else:
            self._queue.remove(live)
        live.move(RequestState.FINISHED)
        del self._live[live.request_id]
        self._records.append(live.record(self._now_s, reason))

    def _stop_running(self, live: LiveRequest) -> None:
        self._cache.release(live.table)
        del self._running[live.request_id]
        self._left.append(live.request_id)


def _arrival(live: LiveRequest) -> int:
    return live.arrival_rank
