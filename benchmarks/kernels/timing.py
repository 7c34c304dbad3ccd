"""Time, bytes and arithmetic of each kind of op in a step, as shares of what the machine reaches in the same run."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.kernels.steps import Case, fill_context, limits, step
from benchmarks.kernels.subject import Subject
from tailrace.ops.api import Ceilings, Limits, StepInputs
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable, measure_ceilings
from tailrace.ops.cpu.stages import (
    AttentionStage,
    DispatchStage,
    ExpertDownStage,
    ExpertGatedStage,
    GatedStage,
    GemmStage,
    RouteStage,
    Stage,
)
from tailrace.ops.program import Experts, Program, Tensor, Weight

__all__ = ["WHOLE", "Line", "Profile", "highest_ceilings", "measure"]

DOT_COST_OF_BF16 = 2  # a bfloat16 multiply and add takes the place of two of int8
WHOLE = "whole step"
_CEILING_BYTES = 96 * 2**20
_MIN_REPEATS = 2
_ROUND_S = 0.4  # for each case and round
_PROJECTIONS = GemmStage | GatedStage | RouteStage | DispatchStage | ExpertGatedStage | ExpertDownStage


@dataclass(frozen=True, slots=True)
class Cost:
    """What an op had to read and to compute in a step; `num_ops` in int8 multiplies and adds."""

    num_bytes: float = 0
    num_ops: float = 0


@dataclass(frozen=True, slots=True)
class Reads:
    """What of caches and experts a step reads."""

    kv_value_bytes: float  # of one key or value of one dimension, scales and padding included
    expert_share: float  # of the experts of a mixture, those that some row has chosen


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of op in one step. `spread`: how far the other rounds lie from the quickest at most, relative."""

    model: str
    case: str
    op: str
    time_ms: float
    spread: float
    gbytes_per_s: float
    tops: float
    ceiling_share: float  # 1.0: it could not be quicker, going by the nearer of the two ceilings
    is_memory_bound: bool

    @property
    def key(self) -> str:
        return f"{self.model}, {self.case}, {self.op}"


@dataclass(slots=True)
class Profile:
    """The quickest times of each kind of op in a case, one for each round, and what it costs."""

    case: Case
    costs: dict[str, Cost]
    rounds_s: list[dict[str, float]]

    def lines(self, model: str, ceilings: Ceilings) -> Iterator[Line]:
        """The quickest round; its ops belong together, each one's own best would be of different rounds.

        An op that took no time was done, and timed, with the one behind it: it has no line.
        """
        quickest = min(self.rounds_s, key=lambda times: times[WHOLE])
        for op, cost in self.costs.items():
            if not (time_s := quickest[op]):
                continue
            read_s, dot_s = cost.num_bytes / ceilings.read_bytes_per_s, cost.num_ops / ceilings.dot_ops_per_s
            yield Line(
                model,
                self.case.name,
                op,
                time_ms=time_s * 1e3,
                spread=max(abs(times[op] / time_s - 1) for times in self.rounds_s),
                gbytes_per_s=cost.num_bytes / time_s / 1e9,
                tops=cost.num_ops / time_s / 1e12,
                ceiling_share=max(read_s, dot_s) / time_s,
                is_memory_bound=read_s >= dot_s,
            )


def highest_ceilings(num_threads: int, isa: str, before: Ceilings | None = None) -> Ceilings:
    """What this run has reached at best so far, another try included."""
    now = measure_ceilings(num_threads, _CEILING_BYTES, isa)
    if before is None:
        return now
    return Ceilings(max(now.read_bytes_per_s, before.read_bytes_per_s), max(now.dot_ops_per_s, before.dot_ops_per_s))


def measure(
    backend: CpuBackend, subject: Subject, of: Sequence[Case], num_threads: int, num_rounds: int
) -> list[Profile]:
    """Every case in every round, so that a noisy neighbour meets all of them."""
    bounds = limits(of, num_threads)
    executable = backend.load(subject.program, subject.weights, bounds)
    if subject.program.caches:
        fill_context(executable, bounds, subject.token_ids)
    profiles = []
    for case in of:
        before = executable.expert_loads
        stages = executable.profile(step(case, bounds, subject.token_ids))
        reads = Reads(_kv_value_bytes(executable, subject, bounds), _expert_share(before, executable.expert_loads))
        profiles.append(Profile(case, _costs(subject, case, [stage for stage, _ in stages], reads), []))
    for _ in range(num_rounds):
        for profile in profiles:
            profile.rounds_s.append(_quickest(executable, step(profile.case, bounds, subject.token_ids), subject))
    executable.close()
    return profiles


def _quickest(executable: CpuExecutable, inputs: StepInputs, subject: Subject) -> dict[str, float]:
    """The quickest step as a whole; no stage is taken from another: one thread's gain may be the next stage's loss."""
    started_s = time.perf_counter()
    runs: list[list[tuple[Stage, float]]] = []
    while len(runs) < _MIN_REPEATS or time.perf_counter() - started_s < _ROUND_S:
        runs.append(executable.profile(inputs))
    quickest = min(runs, key=lambda run: sum(seconds for _, seconds in run))
    return _by_op(subject, quickest)


def _by_op(subject: Subject, stages: Sequence[tuple[Stage, float]]) -> dict[str, float]:
    times: dict[str, float] = {}
    for stage, seconds in stages:
        op = _op_name(subject, stage)
        times[op] = times.get(op, 0.0) + seconds / subject.copies
    times[WHOLE] = sum(times.values())
    return times


def _expert_share(before: Sequence[NDArray[np.uint64]], after: Sequence[NDArray[np.uint64]]) -> float:
    busy = [np.mean(now > then) for then, now in zip(before, after, strict=True)]
    return float(np.mean(busy)) if busy else 0.0


def _kv_value_bytes(executable: CpuExecutable, subject: Subject, of: Limits) -> float:
    num_values = subject.program.kv_values_per_token * of.block_tokens
    return executable.kv_bytes_per_block / num_values if num_values else 0.0


def _costs(subject: Subject, case: Case, stages: Sequence[Stage], reads: Reads) -> dict[str, Cost]:
    """What each line of the case costs; ops whose lines are not wanted have none."""
    costs: dict[str, Cost] = {}
    total = Cost()
    for stage in stages:
        cost = _cost(stage, case, subject, reads)
        total = _sum(total, cost)
        if subject.is_whole or isinstance(stage, _PROJECTIONS):
            op = _op_name(subject, stage)
            costs[op] = _sum(costs.get(op, Cost()), cost)
    return costs | ({WHOLE: total} if subject.is_whole else {})


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(one.num_bytes + other.num_bytes, one.num_ops + other.num_ops)


def _op_name(subject: Subject, stage: Stage) -> str:
    match stage:
        case GemmStage(weights=weights):
            return f"{subject.prefix}linear " + "+".join(weight.name.rsplit(".", 1)[-1] for weight in weights)
        case GatedStage():
            return f"{subject.prefix}linear gate+up, swiglu"
        case ExpertGatedStage():
            return "experts gate+up, swiglu"
        case ExpertDownStage():
            return "experts down"
        case _:
            return type(stage).__name__.removesuffix("Stage").lower()


def _cost(stage: Stage, case: Case, subject: Subject, reads: Reads) -> Cost:
    match stage:
        case GemmStage(weights=used, out=out):
            return _linear_cost(used, _num_rows(out.tensor, case), subject)
        case GatedStage(gate=gate, up=up, codes=codes):
            return _linear_cost((gate, up), _num_rows(codes.tensor, case), subject)
        case ExpertGatedStage(op=op):
            return _expert_cost(op, (op.gate, op.up), _num_rows(op.x, case), subject, reads.expert_share)
        case ExpertDownStage(op=op):
            return _expert_cost(op, (op.down,), _num_rows(op.x, case), subject, reads.expert_share)
        case AttentionStage():
            return _attention_cost(stage, case, subject.program, reads.kv_value_bytes)
        case _:
            return Cost()


def _num_rows(tensor: Tensor, case: Case) -> int:
    return case.num_rows if tensor.rows == "tokens" else case.num_sequences


def _linear_cost(used: Sequence[Weight], rows: int, subject: Subject) -> Cost:
    return Cost(
        num_bytes=sum(subject.weights[weight.name].num_bytes for weight in used) / subject.copies,
        num_ops=sum(2 * rows * weight.shape[0] * weight.shape[1] for weight in used) / subject.copies,
    )


def _expert_cost(op: Experts, used: Sequence[Weight], rows: int, subject: Subject, share: float) -> Cost:
    """Weights of the experts that somebody chose, and the products of each row with those of its own."""
    all_experts = _linear_cost(used, rows, subject)
    return Cost(share * all_experts.num_bytes, op.routing.top_k / op.routing.num_experts * all_experts.num_ops)


def _attention_cost(stage: AttentionStage, case: Case, program: Program, kv_value_bytes: float) -> Cost:
    """Keys and values read once, and the products of the queries with those that each of them sees."""
    cache = program.caches[stage.op.cache]
    seen = case.num_sequences * sum(case.start + token + 1 for token in range(case.num_tokens))
    return Cost(
        num_bytes=case.num_sequences * (case.start + case.num_tokens) * cache.num_values * kv_value_bytes,
        num_ops=seen * stage.op.num_heads * cache.head_dim * 4 * DOT_COST_OF_BF16,
    )
