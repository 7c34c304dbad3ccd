"""Who runs in the next step, and how much of each prompt. Pure: time comes in as an argument."""

import math
from collections import deque

from tailrace.classes import ServiceClasses
from tailrace.errors import EngineError, InvalidRequest
from tailrace.kvcache.cache import KvCache, PrefixMatch
from tailrace.kvcache.transfer import BlockStore
from tailrace.records import KvFact, PoolRecord, RequestRecord
from tailrace.scheduler.arrivals import Arrivals
from tailrace.scheduler.below import LevelsBelow, NoStore
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.draft import StepDraft
from tailrace.scheduler.entrance import Admitted, Entrance, Outlook
from tailrace.scheduler.foresight import Foresight
from tailrace.scheduler.giving_way import GivingWay
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.live import BelowState, LiveRequest
from tailrace.scheduler.pacing import Pacer
from tailrace.scheduler.plan import BlockCopy, BlockMove, SampledToken, StepPlan, StepResult, StepSize
from tailrace.scheduler.prediction import Ahead, Shortage
from tailrace.scheduler.prompts import Prompts, even_share
from tailrace.scheduler.running import RunningSet
from tailrace.scheduler.stats import SchedulerStats, gather_stats
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.types import FinishReason, PreemptionCause, Request, TokenEvent

__all__ = ["Scheduler", "SchedulerConfig", "SchedulerStats"]

MAX_UNREAD_RECORDS = 16_384  # the oldest go first


class Scheduler:
    """`plan` decides a step, `commit` takes its outcome; between the two only `add` and `abort` may be called.

    A request has tokens known and tokens computed, and a step closes part of the gap: first one token for each stream,
    then chunks of what was admitted, then newcomers. Blocks for all known tokens are taken at admission; with a window,
    as many as it reaches, and then more as chunks need them and blocks that no row sees any more come back.

    What lies below the engine is fetched before a request is admitted; others go on meanwhile.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cache: KvCache,
        store: BlockStore | None = None,
        foresight: Foresight | None = None,
        step_times: StepTimeModel | None = None,
    ) -> None:
        self.config = config
        self._cache = cache
        self._below = LevelsBelow(store or NoStore(), cache)
        self._live: dict[str, LiveRequest] = {}
        self._running = RunningSet(config.classes)
        self._left: list[str] = []  # leave the running set with the next plan
        self._draft: StepDraft | None = None  # of the step under way
        self._records: deque[RequestRecord] = deque(maxlen=MAX_UNREAD_RECORDS)
        self._foresight = foresight or Foresight()
        self._pacer = Pacer(config, step_times)
        arrivals = Arrivals(config, cache, self._foresight, self._pacer.targets)
        self.entrance = Entrance(config, cache, self._below, arrivals, self._outlook)  # for who looks between two steps
        self._queue = self.entrance.queue
        self._way = GivingWay(config.preemption, cache, self._queue, is_lossless=not self._below.is_empty)
        self._admitted = Admitted()
        self._step_id = 0
        self.step_size = StepSize(0, 0, 0)  # of the step that was planned last
        self._planned_s = 0.0
        self._now_s = 0.0

    @property
    def cache(self) -> KvCache:
        """To be asked between two steps only."""
        return self._cache

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def below(self) -> LevelsBelow:
        """To be asked between two steps only."""
        return self._below

    @property
    def store(self) -> BlockStore:
        return self._below.store

    @property
    def stats(self) -> SchedulerStats:
        return gather_stats(self._running, self._queue, self._cache, self._way, self._pacer)

    @property
    def predicted_s(self) -> float | None:
        """How long the step that was planned last should take; None: not known yet."""
        return self._pacer.predicted_s

    @property
    def classes(self) -> ServiceClasses:
        """The service classes with the targets that they have now. May be asked at any time."""
        return self._pacer.targets.classes

    @property
    def pool_record(self) -> PoolRecord:
        """The KV pool, in more detail than `stats` has."""
        return self._cache.pool_record

    def fetch_s(self, request_id: str) -> float:
        """For how long a request that has not ended has waited for the levels below."""
        return self._live[request_id].fetch_s

    def drain_records(self) -> list[RequestRecord]:
        """Facts of the requests that ended since the last call."""
        records = list(self._records)
        self._records.clear()
        return records

    def drain_facts(self) -> tuple[KvFact, ...]:
        """What became of blocks since the last call, if somebody watches the cache."""
        return self._cache.drain_facts()

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises InvalidRequest or ContextTooLong for what can never run, and Overloaded for what would come too late
        because of those ahead. How many may wait, the intake says.
        """
        if request.request_id in self._live:
            raise InvalidRequest(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        live = self.entrance.take(request)
        refusal = self.entrance.refusal_of(live, max(self._now_s, request.arrival_s))
        if refusal is not None:
            self._records.append(live.record(self._now_s, FinishReason.ERROR))
            raise refusal.error
        self._live[request.request_id] = live
        self.entrance.wait(live)

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> TokenEvent | None:
        """End a request in whatever phase it is, for `reason`; None when it is unknown or has ended.

        Its record ends at the latest time this scheduler has been told.
        """
        live = self._live.get(request_id)
        if live is None:
            return None
        self._end(live, reason)
        return TokenEvent(request_id, None, live.prefix, reason)

    def pause(self, request_id: str) -> None:
        """Compute nothing of a running request until `proceed`. It keeps its place, and its blocks while they last."""
        if (live := self._live.get(request_id)) is not None:
            live.is_paused = True

    def proceed(self, request_id: str, now_s: float) -> None:
        """Go on with a request; that it was paused makes no token late."""
        live = self._live.get(request_id)
        if live is not None and live.is_paused:
            live.is_paused = False
            live.last_token_s = None if live.last_token_s is None else now_s

    @property
    def expiry_due_s(self) -> float | None:
        """When `expire` will next have somebody to give up, if nothing else happens; None: never."""
        return self._queue.next_expiry_s if len(self._queue) else None

    def expire(self, now_s: float) -> list[TokenEvent]:
        """Give up those that have waited for as long as they may."""
        self._now_s = now_s
        events = []
        for live, refusal in self.entrance.expire(now_s):
            self._finish(live, FinishReason.ERROR)
            events.append(
                TokenEvent(
                    live.request_id, None, live.prefix, FinishReason.ERROR, error=refusal.message, refusal=refusal
                )
            )
        return events

    def plan(self, now_s: float) -> StepPlan | None:
        """The next step; None when nothing runs, or all that waits waits for the levels below.

        Blocks pass from one request to another only here.
        """
        if self._draft is not None:
            raise EngineError(f"step {self._step_id} was planned but not committed: commit it before the next plan")
        self._planned_s = self._now_s = now_s
        self._cache.advance(now_s)
        self._below.absorb(self._below.store.take())
        self.entrance.wake(now_s)
        if not self._below.is_empty:
            self.entrance.look_below(self._running.num_spare_blocks, now_s)
        draft = StepDraft(self.config.budget_tokens)
        self._make_room()
        self._steer()
        self._admit(draft, self._continue_running(draft))
        if not draft.slices:
            return None
        self._cache.sweep()
        self._step_id += 1
        self._draft = draft
        self.step_size = draft.size
        self._pacer.planned(self.step_size)
        left, self._left = tuple(self._left), []
        copies = tuple(BlockCopy(*copy) for copy in self._cache.take_copies())
        moves = self._compact(is_quiet=draft.is_quiet)
        return draft.plan(self._step_id, left, copies, moves, self._cache.take_memory_change())

    def tidy(self, now_s: float) -> StepPlan | None:
        """What to do for the KV pool while `plan` has no step: a plan without slices, which needs no commit."""
        self._now_s = now_s
        self._cache.advance(now_s)
        self._cache.sweep()
        moves = self._compact(is_quiet=True)
        memory = self._cache.take_memory_change()
        if not memory and not moves:
            return None
        self._step_id += 1
        return StepPlan(self._step_id, (), (), (), (), moves, memory.committed, memory.released)

    @property
    def tidy_due_s(self) -> float | None:
        """When `tidy` will next have something to do, if nothing else happens; None: never."""
        return self._now_s if self._cache.is_compacting else self._cache.sweep_due_s

    def commit(self, result: StepResult, now_s: float) -> list[TokenEvent]:
        """Take in what the step computed: seal blocks, give back what is out of sight, append tokens, end what is done.

        A sequence takes a block only once the one before is sealed, so this is soon enough to give one back for it.
        """
        draft = self._finish_step(result, now_s)
        self._cache.copied()
        sampled = iter(result.sampled)
        block_tokens = self._cache.config.block_tokens
        events: list[TokenEvent] = []
        for live, part in zip(draft.lives, draft.slices, strict=True):
            token = next(sampled) if part.is_sampled else None
            if live.state is not RequestState.RUNNING:
                continue  # aborted while the step ran
            live.num_computed += part.num_tokens
            if live.num_computed // block_tokens > live.table.num_sealed:
                sealed = self._cache.seal(live.table, live.token_ids, live.num_computed)
                self._below.save(live.table, sealed)
                live.num_released += self._cache.slide(live.table, live.num_computed)
            if token is not None:
                events.append(self._deliver(live, token))
        return events

    def _outlook(self, live: LiveRequest) -> Outlook:
        """What is ahead of a request that comes now: who waits or runs of its class or above, or will not give way."""
        occupied = self._running.ahead_of(live.service_class)
        ahead = Ahead(
            num_tokens=self._queue.tokens_ahead(live.service_class, live.request.tenant) + occupied.num_tokens,
            num_requests=self._queue.requests_ahead(live.service_class, live.request.tenant),
            num_free_places=self._pacer.control.max_running - occupied.num_places,
            num_free_tokens=(self._cache.config.num_blocks - occupied.num_blocks) * self._cache.config.block_tokens,
            is_idle=not self._live,
        )
        return Outlook(ahead, self._pacer.alone_rate(live))

    def _compact(self, *, is_quiet: bool) -> tuple[BlockMove, ...]:
        """Move blocks together, for the end of a plan. What the runtime will be told later, it is told by new ids."""
        moves = tuple(BlockMove(*move) for move in self._cache.compact(is_quiet=is_quiet))
        if moves:
            places = dict(moves)
            for live in self._running:
                live.new_blocks = tuple(places.get(block_id, block_id) for block_id in live.new_blocks)
        return moves

    def _make_room(self) -> None:
        """Give each sequence the block its next token needs; when there is none, somebody gives all of his back."""
        needy = [live for live in self._running if live.num_computed >= live.num_positions and not live.is_paused]
        for live in needy:
            while live.state is RequestState.RUNNING and not self._grow(live):
                self._preempt(self._way.for_room(self._running, self._now_s), PreemptionCause.ROOM)

    def _make_way(self) -> None:
        """Let some of lower classes give theirs back for one that would come too late otherwise."""
        running, spare, most = self._running, self._running.num_spare_blocks, self._pacer.control.max_running
        for victim in self._way.for_deadlines(running, spare, most, self._now_s):
            self._preempt(victim, PreemptionCause.DEADLINE)

    def _grow(self, live: LiveRequest) -> bool:
        block_id = self._cache.grow(live.table)
        if block_id is None:
            return False
        live.new_blocks += (block_id,)
        live.num_positions += self._cache.config.block_tokens
        return True

    def _preempt(self, live: LiveRequest, cause: PreemptionCause) -> None:
        """Take all blocks of a request. It resumes as prompt plus tokens so far, of which the cache may keep some."""
        self._way.leave(live, cause, self._now_s)
        self._stop_running(live)
        live.move(RequestState.WAITING)
        live.below = BelowState()
        self.entrance.come_back(live)

    def _steer(self) -> None:
        self._pacer.steer(self._now_s, len(self._running), self._cache.free_share)
        if len(self._queue):
            self._queue.seconds_per_token = self._pacer.seconds_per_token
            self._make_way()

    def _continue_running(self, draft: StepDraft) -> Prompts:
        """One token for each stream, then chunks for those still behind, who are returned."""
        streams: list[LiveRequest] = []
        behind: list[LiveRequest] = []
        for live in self._running:
            if live.is_paused:
                continue
            (streams if len(live.token_ids) - live.num_computed == 1 else behind).append(live)
        draft.decode(streams)
        tightest_itl_s = min([live.itl_s for live in streams], default=math.inf)
        prompts = Prompts(behind, self._queue.first(self._now_s) if self._has_place else None)
        draft.budget_left = self._pacer.prompt_tokens(draft, tightest_itl_s, prompts, self._now_s)
        for live, most in prompts.shares(draft.budget_left):
            self._fill(draft, live, most)
        return prompts

    @property
    def _has_place(self) -> bool:
        return len(self._running) < self._pacer.control.max_running

    def _admit(self, draft: StepDraft, prompts: Prompts) -> None:
        """Let waiting requests start, in order, while there is budget, a place and blocks."""
        while draft.budget_left and self._has_place:
            live = self._queue.first(self._now_s)
            if live is None:
                return
            if not prompts.has_room_for(live, draft.budget_left):
                break
            spare = self._running.num_spare_blocks
            match = self.entrance.match(live, spare, self._now_s)
            if match is None:
                continue
            if not self._start(live, match, spare):
                self._admitted.shortage = Shortage.ROOM
                return
            draft.enter(live)
            self._fill(draft, live, draft.budget_left)
            if not draft.slices[-1].is_sampled:
                prompts.leave_unfinished(live)
        if len(self._queue):
            self._admitted.shortage = self._shortage

    @property
    def _shortage(self) -> Shortage | None:
        """What keeps the next request waiting, if there are blocks for it."""
        if not self._has_place:
            return Shortage.PLACES
        return Shortage.TOKENS if self._pacer.is_at_limit else None

    def _fill(self, draft: StepDraft, live: LiveRequest, most: int) -> None:
        """Plan the next tokens of a gap, at most so many, as far as there are blocks for them, but at least one.

        Only with a window are blocks still to be taken; what they are more than it reaches comes back after the step.
        """
        end = live.num_computed + even_share(live.gap, most)
        while live.num_positions < end and self._grow(live):
            pass
        draft.fill(live, min(end, live.num_positions) - live.num_computed)

    def _start(self, live: LiveRequest, match: PrefixMatch, spare: int) -> bool:
        blocks = self._cache.acquire(live.table, match, len(live.token_ids), spare)
        if blocks is None:
            return False
        block_tokens = self._cache.config.block_tokens
        num_tokens = len(live.token_ids) - live.table.num_cached
        self.entrance.start(live, num_tokens, self._now_s)
        self._admitted.num_requests += 1
        self._admitted.num_tokens += num_tokens
        live.move(RequestState.RUNNING)
        self._running.add(live)
        live.new_blocks = blocks
        self._cache.set_aside(live.table, self._num_blocks_ahead(live))
        live.num_released = match.first
        live.num_positions = live.table.end * block_tokens
        live.num_computed = live.table.num_cached
        self._way.come_back(live, self._now_s)
        if live.started_s is None:
            live.started_s = self._now_s
            report = self._cache.report(live.table, match, live.token_ids[: live.request.num_prompt_tokens])
            live.prefix = live.below.report(report, block_tokens)
        return True

    def _num_blocks_ahead(self, live: LiveRequest) -> int:
        """Blocks that a request will need besides those it starts with, if its answer is as long as most are."""
        num_output = self._foresight.num_output_tokens(live.request, live.service_class.name)
        num_expected = min(live.request.num_prompt_tokens + num_output, live.max_length)
        num_positions = num_expected - 1  # the last token is never computed
        return self._cache.config.blocks_at_once(num_positions) - len(live.table.blocks)

    def _finish_step(self, result: StepResult, now_s: float) -> StepDraft:
        """Check the result against its plan."""
        draft = self._draft
        if draft is None or result.step_id != self._step_id:
            raise EngineError(
                f"the result of step {result.step_id} was committed, but {self._step_id} is the last planned"
            )
        took_s = now_s - self._planned_s
        if len(result.sampled) != draft.num_sampled:
            raise EngineError(
                f"step {result.step_id} should sample {draft.num_sampled} tokens, not {len(result.sampled)}"
            )
        if not self._below.is_empty:
            self._below.computed(sum([part.num_tokens for part in draft.slices if part.num_tokens > 1]), took_s)
        self._way.computed(draft.num_tokens)
        if result.has_waited:
            self._pacer.waited()
        else:
            self._pacer.stepped(self.step_size, took_s, now_s)
        admitted, self._admitted = self._admitted, Admitted()
        self.entrance.stepped(admitted, took_s, num_prefill_tokens=draft.num_tokens - self._pacer.num_streams)
        self._draft = None
        self._now_s = now_s
        self._cache.advance(now_s)
        return draft

    def _deliver(self, live: LiveRequest, token: SampledToken) -> TokenEvent:
        if token.request_id != live.request_id:
            raise EngineError(f"a token of {token.request_id!r} came where one of {live.request_id!r} was due")
        is_first = live.first_token_s is None
        reason = live.append(token.token_id, self._now_s)
        if is_first:
            self.entrance.settle(live, self._now_s)
        if reason is not None:
            self._end(live, reason)
        return TokenEvent(live.request_id, token.token_id, live.prefix, reason, token.logprob, token.top_logprobs)

    def _end(self, live: LiveRequest, reason: FinishReason) -> None:
        if live.state is RequestState.RUNNING:
            self._stop_running(live)
            self._queue.served(live, live.num_output_tokens - len(live.request.output_ids))
        else:
            self.entrance.leave(live)
        self._finish(live, reason)

    def _finish(self, live: LiveRequest, reason: FinishReason) -> None:
        live.move(RequestState.FINISHED)
        del self._live[live.request_id]
        if reason in (FinishReason.STOP, FinishReason.LENGTH) and not live.request.is_warmup:
            self._foresight.learn(live.num_output_tokens, live.service_class.name)
        self._records.append(live.record(self._now_s, reason))

    def _stop_running(self, live: LiveRequest) -> None:
        self._cache.release(live.table)
        self._running.remove(live)
        self._left.append(live.request_id)
