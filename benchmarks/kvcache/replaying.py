"""A trace through the real scheduler and cache, without a device: a step takes a modelled time, and so does a move."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.kvcache.traces import TracedRequest
from tailrace.classes import STANDARD
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.chunks import ChooseChunk, Chunk, ChunkMap, fullest_first
from tailrace.kvcache.config import CompactionConfig
from tailrace.kvcache.eviction import EvictionConfig
from tailrace.records import PoolRecord, RequestRecord
from tailrace.scheduler.foresight import Foresight
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig, SchedulerStats
from tailrace.types import Request, SamplingParams

__all__ = ["POLICIES", "Machine", "Outcome", "Policy", "replay"]

EOS_ID, TOKEN_ID = 0, 7
MIN_WAIT_S = 1e-3


@dataclass(frozen=True, slots=True)
class Machine:
    """What is served on: times are those of the default model on two cores, roughly."""

    num_blocks: int
    block_tokens: int = 16
    block_bytes: int = 368_640
    step_s: float = 0.008
    token_s: float = 0.0004
    move_s: float = 0.0001
    budget_tokens: int = 512
    chunk_tokens: int = 128  # of prompts, beside streams
    max_running: int = 64
    max_model_tokens: int = 8192
    ttl_s: float = 3600.0  # of a cached block

    @property
    def num_tokens(self) -> int:
        return self.num_blocks * self.block_tokens

    @property
    def chunk_blocks(self) -> int:
        return KvCacheConfig(self.num_blocks, self.block_tokens, ()).chunk_blocks

    def duration_s(self, plan: StepPlan) -> float:
        return self.step_s + plan.num_tokens * self.token_s + len(plan.moves) * self.move_s


def emptiest_first(chunks: ChunkMap, group: int) -> Chunk | None:
    """As a free list would that does not know of chunks: blocks come from anywhere."""
    emptiest = [next(chunks.emptiest_first(group), None) for group in chunks.groups]
    partial = [chunk for chunk in emptiest if chunk is not None]
    return min(partial, key=lambda chunk: chunk.num_occupied, default=None) or chunks.empty() or chunks.released()


def apart(chunks: ChunkMap, group: int) -> Chunk | None:
    """Groups in chunks of their own, as long as there is memory to be had."""
    return chunks.fullest(group) or chunks.empty() or chunks.released() or chunks.any_with_room()


@dataclass(frozen=True, slots=True)
class Policy:
    """The measures that are compared: from which chunk blocks are taken, and what is known of a request for it."""

    choose: ChooseChunk = fullest_first
    groups: bool = True
    compacts: bool = True
    reserves: bool = True

    def scheduler(self, machine: Machine) -> Scheduler:
        kv = KvCacheConfig(
            machine.num_blocks,
            machine.block_tokens,
            ("replay",),
            eviction=EvictionConfig(ttl_s=machine.ttl_s),
            compaction=CompactionConfig() if self.compacts else None,
        )
        config = SchedulerConfig(
            budget_tokens=machine.budget_tokens,
            max_running=machine.max_running,
            max_model_tokens=machine.max_model_tokens,
            eos_ids=(EOS_ID,),
            chunk_tokens=machine.chunk_tokens,
            classes=STANDARD.patient,
        )
        return Scheduler(config, KvCache(kv, self.choose), foresight=_Partial(self))


POLICIES = {
    "none": Policy(emptiest_first, groups=False, compacts=False, reserves=False),
    "compaction": Policy(emptiest_first, groups=False, reserves=False),
    "fullest first": Policy(groups=False, compacts=False, reserves=False),
    "placement": Policy(compacts=False, reserves=False),
    "placement, strict": Policy(apart, compacts=False, reserves=False),
    "both": Policy(reserves=False),
    "both, reservation": Policy(),
}


class _Partial(Foresight):
    """Sees as much as a policy uses."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self._policy = policy

    def num_output_tokens(self, request: Request, class_name: str) -> int:
        return super().num_output_tokens(request, class_name) if self._policy.reserves else 0

    def group_of(self, request: Request, class_name: str) -> int:
        return super().group_of(request, class_name) if self._policy.groups else 0


@dataclass(slots=True)
class Outcome:
    """Means are over time."""

    num_requests: int
    num_steps: int = 0
    end_s: float = 0.0
    mean_resident_bytes: float = 0.0
    peak_resident_bytes: int = 0
    mean_held_bytes: float = 0.0  # of blocks that are used or cached
    mean_fragmentation: float = 0.0
    peak_fragmentation: float = 0.0
    num_preempted: int = 0
    num_moved: int = 0
    num_evicted: int = 0
    num_commits: int = 0  # steps that had to get memory
    hit_rate: float = 0.0
    median_first_token_s: float = 0.0
    p99_first_token_s: float = 0.0


@dataclass(slots=True)
class _Meter:
    machine: Machine
    outcome: Outcome
    chunk_blocks: int
    seconds: float = 0.0
    first_token_s: list[float] = field(default_factory=list)

    def observe(self, pool: PoolRecord, seconds: float) -> None:
        """The pool was like this for so long."""
        outcome, block_bytes = self.outcome, self.machine.block_bytes
        self.seconds += seconds
        share = seconds / self.seconds if self.seconds else 0.0
        resident = pool.num_committed_chunks * self.chunk_blocks * block_bytes
        held = (pool.num_reserved + pool.num_filling + pool.num_sealed + pool.num_idle) * block_bytes
        outcome.mean_resident_bytes += share * (resident - outcome.mean_resident_bytes)
        outcome.mean_held_bytes += share * (held - outcome.mean_held_bytes)
        outcome.mean_fragmentation += share * (pool.chunk_fragmentation - outcome.mean_fragmentation)
        outcome.peak_resident_bytes = max(outcome.peak_resident_bytes, resident)
        outcome.peak_fragmentation = max(outcome.peak_fragmentation, pool.chunk_fragmentation)

    def ended(self, records: Sequence[RequestRecord]) -> None:
        self.first_token_s += [
            record.first_token_s - record.arrived_s for record in records if record.first_token_s is not None
        ]

    def finish(self, stats: SchedulerStats, pool: PoolRecord, end_s: float) -> Outcome:
        outcome, times = self.outcome, sorted(self.first_token_s)
        outcome.end_s = end_s
        outcome.num_preempted = stats.num_preempted_total
        outcome.num_moved = pool.num_moved_total
        outcome.num_evicted = stats.num_blocks_evicted_total
        outcome.hit_rate = stats.num_hit_tokens_total / max(stats.num_query_tokens_total, 1)
        if times:
            outcome.median_first_token_s = median(times)
            outcome.p99_first_token_s = times[int(0.99 * (len(times) - 1))]
        return outcome


def replay(trace: Sequence[TracedRequest], machine: Machine, policy: Policy) -> Outcome:
    """From the first arrival until the last request has ended.

    No client says how long its answer will be: all ask for as many tokens as the longest answer of the trace has.
    """
    scheduler = policy.scheduler(machine)
    meter = _Meter(machine, Outcome(len(trace)), machine.chunk_blocks)
    max_tokens = max(request.num_output_tokens for request in trace)
    arrivals = deque(enumerate(trace))
    remaining: dict[str, int] = {}
    now_s = 0.0
    while arrivals or scheduler.has_work:
        while arrivals and arrivals[0][1].arrival_s <= now_s:
            number, traced = arrivals.popleft()
            remaining[f"r{number}"] = traced.num_output_tokens
            scheduler.add(_request(f"r{number}", traced, max_tokens))
        plan = scheduler.plan(now_s)
        if plan is None:
            now_s = _rest(scheduler, meter, now_s, arrivals[0][1].arrival_s)
            continue
        meter.outcome.num_steps += 1
        meter.outcome.num_commits += bool(plan.committed)
        seconds = machine.duration_s(plan)
        meter.observe(scheduler.pool_record, seconds)
        now_s += seconds
        scheduler.commit(_result(plan, remaining), now_s)
        meter.ended(scheduler.drain_records())
    return meter.finish(scheduler.stats, scheduler.pool_record, now_s)


def _request(name: str, traced: TracedRequest, max_tokens: int) -> Request:
    return Request(name, traced.prompt_ids, SamplingParams(max_tokens), arrival_s=traced.arrival_s)


def _rest(scheduler: Scheduler, meter: _Meter, now_s: float, until_s: float) -> float:
    """Nothing runs: tidy as the engine would, until the next arrival or the next time there is something to tidy."""
    scheduler.tidy(now_s)
    due_s = scheduler.tidy_due_s
    if due_s is not None:
        until_s = min(until_s, max(due_s, now_s + MIN_WAIT_S))
    meter.observe(scheduler.pool_record, until_s - now_s)
    return until_s


def _result(plan: StepPlan, remaining: dict[str, int]) -> StepResult:
    """Each sequence says a token, and the end after as many as its trace has."""
    sampled = []
    for part in plan.slices:
        if part.is_sampled:
            remaining[part.request_id] -= 1
            is_over = remaining[part.request_id] <= 0
            sampled.append(SampledToken(part.request_id, EOS_ID if is_over else TOKEN_ID))
    return StepResult(plan.step_id, tuple(sampled))
