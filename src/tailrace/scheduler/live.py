"""A request while the scheduler knows it: tokens known against tokens computed."""

import math
from dataclasses import dataclass, field, replace

from tailrace.classes import STANDARD, ServiceClass
from tailrace.errors import RefusalReason
from tailrace.kvcache.block import BlockName, BlockTable
from tailrace.kvcache.transfer import LookupAnswer
from tailrace.records import BeginningRecord, RequestRecord
from tailrace.scheduler.lifecycle import RequestState, moved
from tailrace.scheduler.prediction import Prediction
from tailrace.types import FinishReason, Level, MissReason, PreemptionCause, PrefixReport, Request, TokenIds

__all__ = ["Awaited", "BelowState", "LiveRequest", "Loss"]

Awaited = BlockName | int  # a name in flight, or the number of a lookup


@dataclass(slots=True)
class BelowState:
    """How far a request is with the levels below: `levels[i]` has, or had, block `first + i` of its sequence."""

    num_lookups: int = 0
    first: int | None = None  # before the first answer
    levels: tuple[Level, ...] = ()
    settled_end: int | None = None  # the engine had as many blocks, and no level had more that was worth waiting for
    fetched: list[tuple[Level, int, int]] = field(default_factory=list)  # blocks [first, end) came from this level
    reason: MissReason | None = None  # why the levels gave no more
    elsewhere: MissReason | None = None  # what a level has instead of the first missing block

    def levels_behind(self, end: int) -> tuple[Level, ...] | None:
        """Where the blocks from index `end` on lie; None when that is not known."""
        return None if self.first is None or end < self.first else self.levels[end - self.first :]

    def is_content_with(self, end: int) -> bool:
        """Whether there is nothing to wait for while the engine has that many blocks."""
        return self.settled_end is not None and end >= self.settled_end

    def found(self, answer: LookupAnswer, table: BlockTable) -> None:
        """Why the levels have no more than they said."""
        if answer.down:
            self.reason = MissReason.LEVEL_DOWN
        if answer.elsewhere is not None:
            is_ours = answer.elsewhere.fingerprint == table.owner.fingerprint
            self.elsewhere = MissReason.OTHER_SALT if is_ours else MissReason.OTHER_FINGERPRINT

    def report(self, engine: PrefixReport, block_tokens: int) -> PrefixReport:
        """What the engine reports of a prefix, less what came from below for this request, and why not more did."""
        num_tokens = engine.num_cached_tokens
        counts = dict.fromkeys(Level, 0)
        for level, first, end in self.fetched:
            counts[level] += max(min(end * block_tokens, num_tokens) - first * block_tokens, 0)
        counts[Level.ENGINE] = num_tokens - sum(counts.values())
        found = tuple((level, count) for level, count in counts.items() if count)
        if engine.reason in (None, MissReason.SHORTER_THAN_BLOCK):
            return replace(engine, num_tokens=found)
        if self.reason is not None:
            return PrefixReport(found, self.reason)
        if self.elsewhere is not None and engine.reason is MissReason.NEVER_SEEN:
            return PrefixReport(found, self.elsewhere)
        return replace(engine, num_tokens=found)


@dataclass(frozen=True, slots=True)
class Loss:
    """What a request had when it was preempted."""

    cause: PreemptionCause
    at_s: float
    num_computed: int
    num_expected: int  # of these, tokens that will most likely be computed again


@dataclass(slots=True, eq=False)
class LiveRequest:
    """`token_ids` are all known tokens; while it runs, the first `num_computed` have keys and values in its blocks.

    |<------ prompt ------>|<--- output --->|
    |<------- computed ------->|<--- gap -->|      a step closes part of the gap; closing it samples one token
    |<------------ num_positions ------------->|   room, up to the end of the last block
    """

    request_id: str
    request: Request
    arrival_rank: int  # lower came earlier
    table: BlockTable
    token_ids: TokenIds
    max_length: int  # at most so many tokens become known
    max_blocks: int  # what it needs to hold at once, at most
    stop_ids: frozenset[int]  # those that end it; before min_tokens they do not
    service_class: ServiceClass = STANDARD.default
    itl_s: float = math.inf  # its targets: to each next token, and for the first
    deadline_s: float = math.inf
    expires_s: float = math.inf  # refused when it has not started by then
    num_computed: int = 0
    num_positions: int = 0
    new_blocks: tuple[int, ...] = ()  # held, and not yet told to the runtime
    num_released: int = 0  # given back at the beginning, and not yet told
    state: RequestState = RequestState.WAITING
    num_preemptions: int = 0
    started_s: float | None = None
    first_token_s: float | None = None
    prefix: PrefixReport | None = None  # what the cache gave at the first admission
    below: BelowState = field(default_factory=BelowState)
    fetch_s: float = 0.0  # waited for the levels below so far
    fetching_since_s: float | None = None  # waits for them now
    missing: list[BlockName] = field(default_factory=list)  # while it waits: names behind what is cached
    work_tokens: int = 0  # to be computed before its next token, as of its last look at the cache
    last_token_s: float | None = None
    num_late_tokens: int = 0
    prediction: Prediction | None = None  # at its arrival
    refused_for: RefusalReason | None = None
    loss: Loss | None = None  # while it waits after a preemption
    num_yields: int = 0  # times it gave way to one of a better class: it was preempted, or passed over
    is_paused: bool = False  # its reader lags: no step computes anything of it
    resumed_length: int = 0  # tokens it knew when it came back from a preemption

    @property
    def gap(self) -> int:
        return len(self.token_ids) - self.num_computed

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.request.num_prompt_tokens

    @property
    def may_need_blocks(self) -> bool:
        """Whether it holds less than its longest possible output needs at once."""
        return len(self.table.blocks) < self.max_blocks

    @property
    def may_yield(self) -> bool:
        """Whether its class lets it give way once more to one of a better class that would come too late."""
        return self.num_yields < self.service_class.max_yields

    def move(self, to: RequestState) -> None:
        self.state = moved(self.state, to)

    def has_fetched(self, now_s: float) -> None:
        """What it waited for has come, or will not; nothing, if that was not from below."""
        if self.fetching_since_s is not None:
            self.fetch_s += now_s - self.fetching_since_s
            self.fetching_since_s = None

    def append(self, token_id: int, now_s: float) -> FinishReason | None:
        """Take in the token that was drawn; whether, and why, the request ends with it."""
        self.token_ids.append(token_id)
        if self.last_token_s is None:
            self.first_token_s = now_s
        elif now_s - self.last_token_s > self.itl_s:
            self.num_late_tokens += 1
        self.last_token_s = now_s
        if token_id in self.stop_ids and self.num_output_tokens > self.request.sampling.min_tokens:
            return FinishReason.STOP
        return FinishReason.LENGTH if len(self.token_ids) >= self.max_length else None

    def beginning_record(self, started_s: float, first_token_s: float) -> BeginningRecord:
        return BeginningRecord(
            request_id=self.request_id,
            class_name=self.service_class.name,
            arrived_s=self.request.arrival_s,
            started_s=started_s,
            first_token_s=first_token_s,
            num_prompt_tokens=self.request.num_prompt_tokens,
            prefix=self.prefix,
            predicted_ttft_s=None if self.prediction is None else self.prediction.ttft_s,
            trace=self.request.trace,
        )

    def record(self, finished_s: float, reason: FinishReason) -> RequestRecord:
        return RequestRecord(
            request_id=self.request_id,
            arrived_s=self.request.arrival_s,
            started_s=self.started_s,
            first_token_s=self.first_token_s,
            finished_s=max(finished_s, self.request.arrival_s),
            num_prompt_tokens=self.request.num_prompt_tokens,
            prefix=self.prefix,
            num_output_tokens=self.num_output_tokens,
            num_preemptions=self.num_preemptions,
            finish_reason=reason,
            is_warmup=self.request.is_warmup,
            class_name=self.service_class.name,
            ttft_target_s=self.deadline_s - self.request.arrival_s,
            itl_target_s=self.itl_s,
            num_late_tokens=self.num_late_tokens,
            predicted_ttft_s=None if self.prediction is None else self.prediction.ttft_s,
            refused_for=self.refused_for,
            trace=self.request.trace,
            max_tokens=self.request.sampling.max_tokens,
            num_resumed_tokens=len(self.request.output_ids),
        )
