"""What the engine tells about itself: one plain record a step and a request. Sinks live in `telemetry`.

All times are monotonic seconds of the engine's process; only such times are subtracted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from tailrace.errors import RefusalReason
from tailrace.types import FinishReason, Level, OpTime, PreemptionCause, PrefixReport

__all__ = [
    "BeginningRecord",
    "BlockRemoved",
    "BlockStored",
    "CacheCleared",
    "EnginePart",
    "EventKind",
    "EventRecord",
    "FirstToken",
    "KvFact",
    "KvRecord",
    "LevelReport",
    "LevelUse",
    "LoadRecord",
    "PreemptionCount",
    "Record",
    "RecordSink",
    "RequestRecord",
    "ResidencyCounts",
    "RuleReport",
    "StepProfile",
    "StepRecord",
    "Tell",
    "untold",
]


class EnginePart(IntEnum):
    """What the step loop does. It always does one of these."""

    IDLE = 0  # waits for somebody to come
    INTAKE = 1  # takes in requests, aborts and questions
    PLAN = 2
    COMPUTE = 3
    PUBLISH = 4  # commits a step, and tells of it
    TIDY = 5  # what the KV pool wants while there is no step


class PoolRecord(NamedTuple):
    """Blocks of the KV pool by state, those that lost their name since the start by cause, and chunks with memory."""

    num_released: int = 0
    num_free: int = 0
    num_reserved: int = 0
    num_filling: int = 0
    num_sealed: int = 0
    num_idle: int = 0
    num_evicted_total: int = 0
    num_expired_total: int = 0
    num_swept_total: int = 0  # idle for so long that their memory was wanted back
    num_invalidated_total: int = 0  # idle or in use
    num_committed_chunks: int = 0
    num_partial_chunks: int = 0  # some of their blocks are free
    chunk_fragmentation: float = 0.0  # of the blocks of chunks that hold something, the share that is free
    longest_free_chunks: int = 0  # in a row, at the last sweep
    num_moved_total: int = 0  # blocks, to bring others together

    @property
    def num_removed_total(self) -> int:
        by_itself = self.num_evicted_total + self.num_expired_total + self.num_swept_total
        return by_itself + self.num_invalidated_total


class PreemptionCount(NamedTuple):
    """What the requests of one class lost for one cause since the start."""

    class_name: str
    cause: PreemptionCause
    num_requests: int = 0  # preempted; one counts each time
    num_lost_tokens: int = 0  # computed before, and not found when they came back


class StepRecord(NamedTuple):
    step_id: int
    started_s: float
    planned_s: float  # the plan was ready
    computed_s: float  # the device was done
    finished_s: float  # committed and published
    num_tokens: int  # computed in this step
    num_sampled: int  # rows put through the head
    num_prefill_tokens: int  # of num_tokens, those in slices of more than a sequence's newest token
    num_context_tokens: int  # KV rows the queries could see, summed over sequences
    num_read_tokens: int  # positions met, summed over the rows that were computed
    num_running: int
    num_waiting: int
    num_preempted: int  # since the engine started
    num_blocks_used: int  # referenced by a running request
    num_blocks_cached: int  # idle, named, reusable
    num_blocks_total: int
    pool: PoolRecord  # as of 0.1 s before, at most, while streams only go on
    predicted_s: float | None = None  # from planned to computed, by the step-time model; None: it knows too little
    running_by_class: tuple[int, ...] = ()  # in the order of the classes
    waiting_by_class: tuple[int, ...] = ()
    target_scale: float = 1.0  # how many times as long as configured the targets are, on this machine
    max_running: int | None = None  # requests at once, by the controller
    pace: float | None = None  # the controller's factor on the time that a step may take
    preemptions: tuple[PreemptionCount, ...] = ()  # since the engine started; by class and cause, if there were any
    num_alone_read_tokens: int = 0  # of num_read_tokens, those met by a row that is alone in its sequence
    prompts: tuple[tuple[str, int], ...] = ()  # ids of requests with the tokens of their prompts that it computed
    num_sequences: int = 0  # that took part in it
    num_deferred: int = 0  # of num_waiting, those that wait for a prefix: for who computes it, or for a level below


@dataclass(frozen=True, slots=True)
class BeginningRecord:
    """A user's request has its first token: what is known of it by then, which may be long before it ends.

    There is none of one that an engine before this one has begun.
    """

    request_id: str
    class_name: str
    arrived_s: float
    started_s: float
    first_token_s: float
    num_prompt_tokens: int
    prefix: PrefixReport | None
    predicted_ttft_s: float | None = None
    trace: str = ""

    @property
    def num_cached_tokens(self) -> int:
        return 0 if self.prefix is None else self.prefix.num_cached_tokens


@dataclass(frozen=True, slots=True)
class RequestRecord:
    request_id: str
    arrived_s: float
    started_s: float | None  # first planned; None: never
    first_token_s: float | None
    finished_s: float
    num_prompt_tokens: int
    prefix: PrefixReport | None  # what the cache gave; None: never started
    num_output_tokens: int
    num_preemptions: int
    finish_reason: FinishReason
    is_warmup: bool = False  # no user's request: counts in figures of its own
    class_name: str = ""
    ttft_target_s: float | None = None  # its own or its class's
    itl_target_s: float | None = None
    num_late_tokens: int = 0  # came longer after the one before than the target
    predicted_ttft_s: float | None = None  # at its arrival
    refused_for: RefusalReason | None = None
    trace: str = ""  # its W3C traceparent
    max_tokens: int = 0  # that it was allowed; 0: not known
    num_resumed_tokens: int = 0  # of its output, what an engine before this one has computed: its times are not known

    @property
    def num_cached_tokens(self) -> int:
        return 0 if self.prefix is None else self.prefix.num_cached_tokens

    @property
    def is_on_target(self) -> bool:
        """Whether its first token and 95 of 100 of the others came in time; False for who got none."""
        if self.first_token_s is None or self.refused_for is not None:
            return False
        first_s = self.first_token_s - self.arrived_s
        is_first_late = self.ttft_target_s is not None and first_s > self.ttft_target_s and not self.num_resumed_tokens
        return not is_first_late and self.num_late_tokens <= 0.05 * max(self.num_output_tokens - 1, 0)


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """How full the engine is after a change that no step brought: requests were aborted, maybe the last ones."""

    num_running: int
    num_waiting: int
    num_blocks_used: int
    num_blocks_cached: int
    num_blocks_total: int
    pool: PoolRecord
    running_by_class: tuple[int, ...] = ()  # in the order of the classes
    waiting_by_class: tuple[int, ...] = ()
    num_deferred: int = 0  # of num_waiting, those that wait for a prefix


@dataclass(frozen=True, slots=True)
class BlockStored:
    """From now on a level has this block. Names have 16 bytes."""

    level: Level
    name: bytes
    parent: bytes | None  # the block before it; None: it is the first of its prompt
    token_ids: tuple[int, ...]  # its own, not its prefix's; empty where they are not known, below the engine
    tenant: bytes = b""  # 16 bytes that stand for the tenant's salt; empty: the prompt had none


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    level: Level
    name: bytes


@dataclass(frozen=True, slots=True)
class CacheCleared:
    """No level has any block that was told of."""


KvFact = BlockStored | BlockRemoved | CacheCleared


@dataclass(frozen=True, slots=True)
class KvRecord:
    """What became of named blocks since the last such record, in order. Emitted only when somebody wants it."""

    facts: tuple[KvFact, ...]


@dataclass(frozen=True, slots=True)
class LevelReport:
    """What a level below the engine holds, of late, and what it did for this engine since the start."""

    level: Level
    is_working: bool  # read and written
    num_blocks: int
    num_bytes: int
    max_bytes: int
    num_evicted_blocks: int
    num_corrupt_blocks: int  # failed their checksum
    num_fetched_blocks: int
    fetch_s: float
    num_saved_blocks: int  # written, or there already
    num_dropped_blocks: int  # were to be saved, and were not
    num_failures: int
    num_forgets_pending: int  # told, and not carried out there yet


@dataclass(frozen=True, slots=True)
class ResidencyCounts:
    """What became of experts that come into memory when they are chosen, since the start."""

    hits: int = 0  # chosen, once for each mixture of a step, and in memory
    misses: int = 0  # chosen and not in memory
    evictions: int = 0
    foreseen: int = 0  # loaded before they were chosen
    foreseen_hits: int = 0  # of these, chosen before they had to go
    waited_s: float = 0.0  # steps, for experts
    num_resident: int = 0  # now
    resident_bytes: int = 0  # now, those on their way included


@dataclass(frozen=True, slots=True)
class StepProfile:
    """Where the time of one step went, of those few whose stages are timed: `compute_s` is the whole of it.

    Without `has_prompts`, each sequence computed its newest token alone.
    """

    step_id: int
    compute_s: float
    ops: tuple[OpTime, ...]
    has_prompts: bool = False

    @property
    def between_s(self) -> float:
        """Spent in no op: arrays were made and handed over, threads woken."""
        return max(self.compute_s - sum(op.seconds for op in self.ops), 0.0)


class LevelUse(NamedTuple):
    """What a level was asked for since the start, and what came of it. One of a sample counts for all."""

    num_lookups: float = 0.0
    num_asked_blocks: float = 0.0
    num_given_blocks: float = 0.0
    lost_s: float = 0.0  # waits for it, or what they would be, less the computing that it saved or would

    def plus(self, other: "LevelUse") -> "LevelUse":
        return LevelUse(*(a + b for a, b in zip(self, other, strict=True)))


class FirstToken(NamedTuple):
    """How long a request took to its first token, in targets of its class; infinite: refused for being late."""

    class_name: str
    num_targets: float
    queued_s: float  # before it was started


@dataclass(frozen=True, slots=True)
class RuleReport:
    """How a rule stands. Times are monotonic seconds of the machine."""

    name: str
    says: str  # what it looks at
    action: str
    target: str  # the level or class that it acts on; empty: none
    state: str  # quiet, pending, firing, clearing
    since_s: float
    signal: float | None  # now; None: nothing is known
    counts: bool  # whether that is enough to go by
    clear_at: float
    clear_for_s: float

    @property
    def is_active(self) -> bool:
        """Whether what it does is in force."""
        return self.state in ("firing", "clearing")


class EventKind(StrEnum):
    """What can happen to a server that its operators want to know."""

    RULE_FIRED = "rule_fired"
    RULE_CLEARED = "rule_cleared"
    LEVEL_DOWN = "level_down"
    LEVEL_UP = "level_up"
    ENGINE_LOST = "engine_lost"
    ENGINE_BACK = "engine_back"
    REQUEST_QUARANTINED = "request_quarantined"


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something happened that an operator wants to know. `at_s` is in seconds since 1970."""

    at_s: float
    kind: EventKind
    message: str
    rule: str = ""  # its name, of what a rule did


Record = StepRecord | BeginningRecord | RequestRecord | LoadRecord | KvRecord | StepProfile | EventRecord
RecordSink = Callable[[Record], None]
Tell = Callable[[EventKind, str], None]
"""Something happened now, and this is to be said of it."""


def untold(kind: EventKind, message: str) -> None:
    """A `Tell` where nobody listens."""
