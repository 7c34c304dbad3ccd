"""What each op computes: a numpy interpreter of programs in float32. Slow and obvious: the specification.

Each row is computed on its own, with shapes that depend on its sequence alone, so that here too a token's bits depend
on nothing but its request.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, EngineError, SetupError
from tailrace.ops.api import KvFormat, Limits, Progress, SampleOutputs, SamplingInputs, StepInputs
from tailrace.ops.costs import ProgramCosts, Realisation
from tailrace.ops.op_kinds import OpKind, kinds_of
from tailrace.ops.op_times import KindSums
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import (
    Embed,
    Experts,
    GatherRows,
    LatentAttention,
    Linear,
    Op,
    PagedAttention,
    Program,
    RmsNorm,
    RopeAndStore,
    SelectPositions,
    SwiGlu,
    Weight,
)
from tailrace.ops.reference_cache import Rows, caches_within
from tailrace.ops.reference_experts import experts
from tailrace.ops.reference_latent import latent_attention, select_positions
from tailrace.ops.reference_masks import ReferenceMasks
from tailrace.ops.reference_math import Array, attention, matmul, rms_norm, swiglu, turn
from tailrace.ops.reference_sampling import sample
from tailrace.ops.reference_scope import Scope
from tailrace.ops.step_work import StepWork
from tailrace.types import OpTime

__all__ = ["ReferenceBackend", "ReferenceExecutable"]


class ReferenceBackend:
    """Interprets programs in numpy."""

    name = "reference"
    kv_format: KvFormat = "f32"
    kv_bits = f"numpy {np.__version__}"  # which adds up as it likes

    def kv_bytes_per_block(self, program: Program, block_tokens: int) -> int:
        return program.kv_values_per_token * block_tokens * np.dtype(np.float32).itemsize

    def pack(
        self,
        program: Program,
        weights: Mapping[str, PackedTensor],
        limits: Limits,
        progress: Progress | None = None,
    ) -> "ReferencePackedProgram":
        """Dequantise every weight the program reads.

        Raises CheckpointError when one is missing or has another shape than the program expects, and SetupError.
        """
        packed = self.lay_out(program, weights, limits)
        packed.fill(progress)
        return packed

    def lay_out(
        self, program: Program, weights: Mapping[str, PackedTensor], limits: Limits
    ) -> "ReferencePackedProgram":
        """Nothing is done before `fill`. Raises SetupError when experts are to be loaded as they are chosen."""
        if limits.expert_bytes is not None:
            raise SetupError("the reference back end has all experts in memory: leave --lazy-experts out")
        return ReferencePackedProgram(program, weights, limits)

    def load(self, program: Program, weights: Mapping[str, PackedTensor], limits: Limits) -> "ReferenceExecutable":
        """Raises what `pack` raises."""
        return self.pack(program, weights, limits).start()


@dataclass(frozen=True, slots=True)
class ReferencePackedProgram:
    """A program and, once they are filled in, its dequantised weights: arrays of numpy's own, nothing to share."""

    program: Program
    tensors: Mapping[str, PackedTensor]
    limits: Limits
    weights: dict[str, Array] = field(default_factory=dict)
    num_bytes: int = 0
    layout: str = ""

    @property
    def is_whole(self) -> bool:
        return len(self.weights) == len(self.program.weights)

    def place(self, *, is_shared: bool) -> None:
        """Each weight has memory of its own."""

    def place_in_file(self, file: int) -> None:
        raise EngineError("the reference back end maps no packed weights")

    def memory(self) -> NDArray[np.uint8]:
        raise EngineError("the reference back end has no memory of packed weights")

    def fill(self, progress: Progress | None = None) -> None:
        for name, weight in self.program.weights.items():
            self.weights[name] = _load_weight(self.tensors, weight)
            if progress is not None:
                progress(len(self.weights), len(self.program.weights))

    def start(self) -> "ReferenceExecutable":
        return ReferenceExecutable(self.program, dict(self.weights), self.limits)


def _load_weight(weights: Mapping[str, PackedTensor], weight: Weight) -> Array:
    if weight.name not in weights:
        raise CheckpointError(f"the checkpoint has no tensor {weight.name!r}, which the model needs")
    tensor = weights[weight.name]
    if tensor.shape != weight.shape:
        raise CheckpointError(f"tensor {weight.name!r} has shape {tensor.shape}, the model needs {weight.shape}")
    return np.ascontiguousarray(tensor.dequantize())


class ReferenceExecutable:
    """A program with dequantised weights and a float32 KV pool."""

    def __init__(self, program: Program, weights: dict[str, Array], limits: Limits) -> None:
        self._program = program
        self._weights = weights
        self._limits = limits
        block_values = program.kv_values_per_token * limits.block_tokens
        self._blocks = np.zeros((limits.num_blocks, block_values), np.float32)
        self._caches = caches_within(self._blocks, program.caches, limits.block_tokens)
        self.masks = ReferenceMasks(2 * limits.max_sequences, program.logits.cols)
        self._expert_loads = {
            op.out.index: np.zeros(op.routing.num_experts, np.uint64) for op in program.ops if isinstance(op, Experts)
        }
        self._costs = ProgramCosts(program, _realisation(program, weights))
        self._kind_sums = KindSums([*kinds_of(program), OpKind.SAMPLING, OpKind.WAITING])

    @property
    def kv_bytes_per_block(self) -> int:
        return self._program.kv_values_per_token * self._limits.block_tokens * np.dtype(np.float32).itemsize

    @property
    def kv_pool(self) -> NDArray[np.uint8]:
        """The blocks [num_blocks, kv_bytes_per_block] themselves: of each cache the keys, then the values."""
        return self._blocks.view(np.uint8)

    @property
    def is_whole(self) -> bool:
        """It begins with all."""
        return True

    @property
    def weight_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._weights.values())

    @property
    def expert_loads(self) -> tuple[NDArray[np.uint64], ...]:
        """Of each mixture of experts, in order, how many rows each expert has computed."""
        return tuple(load.copy() for load in self._expert_loads.values())

    @property
    def resident_experts(self) -> None:
        """All experts are in memory."""
        return None

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        """Compute a step and draw one token a sampled row."""
        logits = self.logits(step)
        return sample(logits, sampling, self.masks.allowed(sampling))

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        """As `run`, and what each kind of op took and cost."""
        loads, waited_s, times_s = self.expert_loads, self.masks.waited_s, [perf_counter()]
        logits = self._compute(step, lambda: times_s.append(perf_counter()))
        outputs = sample(logits, sampling, self.masks.allowed(sampling))
        ended_s = perf_counter()
        times_s += [ended_s - (self.masks.waited_s - waited_s), ended_s]
        chosen = [int((now > then).sum()) for now, then in zip(self.expert_loads, loads, strict=True)]
        return outputs, self._ops(StepWork.of(step, self._limits.block_tokens, chosen), np.diff(times_s))

    def logits(self, step: StepInputs) -> Array:
        """Compute a step; the logits [S, vocab] of its sampled rows. Raises EngineError when it breaks the limits."""
        return self._compute(step, lambda: None)

    def _compute(self, step: StepInputs, after_op: Callable[[], object]) -> Array:
        _check_step(step, self._limits)
        scope = Scope(self._weights, self._caches, Rows.of(step), expert_loads=self._expert_loads)
        for op in self._program.ops:
            scope.tensors[op.out.index] = _compute(op, step, scope)
            after_op()
        return scope[self._program.logits]

    def _ops(self, work: StepWork, seconds: NDArray[np.float64]) -> tuple[OpTime, ...]:
        """Of a step, from the seconds of each op, of drawing and of waiting."""
        places = np.array([number for number, _ in self._costs.parts], np.intp)
        return self._kind_sums.of(seconds, places, self._costs.of(work))

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first `num_tokens` rows of a block to another, in every cache."""
        for cache in self._caches:
            cache.copy_block(source, target, num_tokens)

    @property
    def kv_resident_bytes(self) -> int:
        """The whole pool: an array cannot say which of its pages the system has given it."""
        return self._blocks.nbytes

    def commit(self, blocks: range) -> None:
        """Nothing to do: numpy gives no memory back."""

    def populate(self, blocks: range) -> None:
        """Nothing to do: numpy's memory comes as it is touched."""

    def release(self, blocks: range) -> None:
        """Numpy cannot give memory back. What the blocks held is lost as it would be: nobody may read it again."""
        self._blocks[blocks.start : blocks.stop] = np.nan

    def close(self) -> None:
        """Let go of the weights and the KV pool."""
        self._weights.clear()
        self._caches.clear()
        self._blocks = self._blocks[:0]


def _realisation(program: Program, weights: Mapping[str, Array]) -> Realisation:
    return Realisation(
        {name: weight.nbytes for name, weight in weights.items()},
        [cache.num_values * np.dtype(np.float32).itemsize for cache in program.caches],
        expands_latents=True,
        scores_all=True,
    )


def _compute(op: Op, step: StepInputs, scope: Scope) -> Array:
    match op:
        case Embed(table=table):
            out = scope[table][step.token_ids]
        case RmsNorm(x=x, weight=weight, eps=eps):
            out = rms_norm(scope[x], scope[weight], eps)
        case Linear():
            out = _linear(op, scope)
        case SwiGlu(x=x):
            out = swiglu(scope[x])
        case Experts():
            out = experts(op, scope)
        case GatherRows(x=x):
            out = scope[x][step.sample_rows]
        case _:
            out = _through_cache(op, scope)
    return out


def _through_cache(op: RopeAndStore | PagedAttention | LatentAttention | SelectPositions, scope: Scope) -> Array:
    """Ops in which a row meets other positions of its sequence."""
    match op:
        case RopeAndStore():
            out = _rope_and_store(op, scope)
        case PagedAttention():
            out = _paged_attention(op, scope)
        case LatentAttention():
            out = latent_attention(op, scope)
        case SelectPositions():
            out = select_positions(op, scope)
    return out


def _linear(op: Linear, scope: Scope) -> Array:
    parts = []
    for weight, bias in zip(op.weights, op.biases, strict=True):
        product = matmul(scope[op.x], scope[weight])
        parts.append(product if bias is None else product + scope[bias])
    out = np.concatenate(parts, axis=1)
    return out if op.residual is None else out + scope[op.residual]


def _rope_and_store(op: RopeAndStore, scope: Scope) -> Array:
    cache, rows, qkv = scope.caches[op.cache], scope.rows, scope[op.qkv]
    head_dim, num_kv_heads = cache.spec.head_dim, cache.spec.num_kv_heads
    heads = qkv.reshape(len(qkv), -1, head_dim)
    q, k, v = np.split(heads, [op.num_heads, op.num_heads + num_kv_heads], axis=1)
    if op.q_norm is not None:
        q = rms_norm(q, scope[op.q_norm], op.eps)
    if op.k_norm is not None:
        k = rms_norm(k, scope[op.k_norm], op.eps)
    cache.keys.store(rows, turn(k, rows.positions, op.rope))
    cache.values.store(rows, v)
    return turn(q, rows.positions, op.rope).reshape(len(qkv), -1)


def _paged_attention(op: PagedAttention, scope: Scope) -> Array:
    cache, rows, q = scope.caches[op.cache], scope.rows, scope[op.q]
    out = np.empty_like(q)
    for t, position in enumerate(rows.positions):
        keys, values = (pool.up_to(rows.tables[t], position) for pool in (cache.keys, cache.values))
        if op.window is not None:
            keys, values = keys[-op.window :], values[-op.window :]
        out[t] = attention(q[t].reshape(op.num_heads, -1), keys, values, op.scale).reshape(-1)
    return out


def _check_step(step: StepInputs, limits: Limits) -> None:
    """Refuse what numpy would wrap around silently or grow without a bound."""
    num_tokens, num_sequences = len(step.token_ids), len(step.starts)
    counts = np.diff(step.row_starts)
    for is_broken, complaint in (
        (num_tokens > limits.max_tokens, f"{num_tokens} tokens, the limit is {limits.max_tokens}"),
        (num_sequences > limits.max_sequences, f"{num_sequences} sequences, the limit is {limits.max_sequences}"),
        (
            len(step.sample_rows) > limits.max_samples,
            f"{len(step.sample_rows)} samples, the limit is {limits.max_samples}",
        ),
        (counts.sum() != num_tokens, f"row_starts cover {counts.sum()} of {num_tokens} tokens"),
        (np.any(step.starts + counts > limits.max_model_tokens), f"a position beyond {limits.max_model_tokens}"),
        (np.any(step.sample_rows >= num_tokens), f"a sampled row beyond the {num_tokens} tokens"),
    ):
        if is_broken:
            raise EngineError(f"a step breaks its limits: {complaint}")
