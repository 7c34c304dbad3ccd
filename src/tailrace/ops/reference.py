"""What each op computes: a numpy interpreter of programs in float32. Slow and obvious: the specification.

Each row is computed on its own, with shapes that depend on its sequence alone, so that here too a token's bits depend
on nothing but its request.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, EngineError
from tailrace.ops.api import KvFormat, Limits, SampleOutputs, SamplingInputs, StepInputs
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import (
    Embed,
    GatherRows,
    KvCacheSpec,
    Linear,
    Op,
    PagedAttention,
    Program,
    RmsNorm,
    RopeAndStore,
    RopeSpec,
    SwiGlu,
    Weight,
)
from tailrace.ops.reference_sampling import sample

__all__ = ["ReferenceBackend", "ReferenceExecutable"]

Array = NDArray[np.float32]


class ReferenceBackend:
    """Interprets programs in numpy."""

    name = "reference"
    kv_format: KvFormat = "f32"

    def kv_bytes_per_block(self, program: Program, block_tokens: int) -> int:
        return program.kv_values_per_token * block_tokens * np.dtype(np.float32).itemsize

    def load(self, program: Program, weights: Mapping[str, PackedTensor], limits: Limits) -> "ReferenceExecutable":
        """Dequantise every weight the program reads.

        Raises CheckpointError when one is missing or has another shape than the program expects.
        """
        loaded = {name: _load_weight(weights, weight) for name, weight in program.weights.items()}
        return ReferenceExecutable(program, loaded, limits)


def _load_weight(weights: Mapping[str, PackedTensor], weight: Weight) -> Array:
    if weight.name not in weights:
        raise CheckpointError(f"the checkpoint has no tensor {weight.name!r}, which the model needs")
    tensor = weights[weight.name]
    if tensor.shape != weight.shape:
        raise CheckpointError(f"tensor {weight.name!r} has shape {tensor.shape}, the model needs {weight.shape}")
    return np.ascontiguousarray(tensor.dequantize())


@dataclass(frozen=True, slots=True)
class KvCache:
    """The keys and values of one layer, [num_blocks, block_tokens, G, D]."""

    keys: Array
    values: Array

    @classmethod
    def empty(cls, spec: KvCacheSpec, limits: Limits) -> "KvCache":
        shape = (limits.num_blocks, limits.block_tokens, spec.num_kv_heads, spec.head_dim)
        return cls(np.zeros(shape, np.float32), np.zeros(shape, np.float32))

    def up_to(self, table: NDArray[np.int32], num_positions: int) -> tuple[Array, Array]:
        """Keys and values of a sequence's first positions, [num_positions, G, D] each, gathered from its blocks."""
        block_tokens, *head_shape = self.keys.shape[1:]
        blocks = table[: -(-num_positions // block_tokens)]
        keys, values = (part[blocks].reshape(-1, *head_shape)[:num_positions] for part in (self.keys, self.values))
        return keys, values


@dataclass(frozen=True, slots=True)
class Rows:
    """Where each token of a step stands: its position, and the block table of its sequence. All [T, ...]."""

    positions: NDArray[np.int64]
    tables: NDArray[np.int32]

    @classmethod
    def of(cls, step: StepInputs) -> "Rows":
        counts = np.diff(step.row_starts)
        sequences = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(step.token_ids)) - step.row_starts[sequences]
        return cls(step.starts[sequences] + within, step.block_tables[step.slots[sequences]])


class ReferenceExecutable:
    """A program with dequantised weights and a float32 KV pool."""

    def __init__(self, program: Program, weights: dict[str, Array], limits: Limits) -> None:
        self._program = program
        self._weights = weights
        self._limits = limits
        self._caches = [KvCache.empty(spec, limits) for spec in program.caches]

    @property
    def kv_bytes_per_block(self) -> int:
        return self._program.kv_values_per_token * self._limits.block_tokens * np.dtype(np.float32).itemsize

    @property
    def weight_bytes(self) -> int:
        return sum(weight.nbytes for weight in self._weights.values())

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        """Compute a step and draw one token a sampled row."""
        return sample(self.logits(step), sampling)

    def logits(self, step: StepInputs) -> Array:
        """Compute a step; the logits [S, vocab] of its sampled rows. Raises EngineError when it breaks the limits."""
        _check_step(step, self._limits)
        rows, tensors = Rows.of(step), dict[int, Array]()
        for op in self._program.ops:
            tensors[op.out.index] = self._compute(op, step, rows, tensors)
        return tensors[self._program.logits.index]

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first `num_tokens` rows of a block to another, in every cache."""
        for cache in self._caches:
            cache.keys[target, :num_tokens] = cache.keys[source, :num_tokens]
            cache.values[target, :num_tokens] = cache.values[source, :num_tokens]

    def close(self) -> None:
        """Let go of the weights and the KV pool."""
        self._weights.clear()
        self._caches.clear()

    def _compute(self, op: Op, step: StepInputs, rows: Rows, tensors: dict[int, Array]) -> Array:
        match op:
            case Embed(table=table):
                out = self._weights[table.name][step.token_ids]
            case RmsNorm(x=x, weight=weight, eps=eps):
                out = rms_norm(tensors[x.index], self._weights[weight.name], eps)
            case Linear():
                out = self._linear(op, tensors)
            case SwiGlu(x=x):
                out = swiglu(tensors[x.index])
            case RopeAndStore(qkv=qkv):
                out = self._rope_and_store(op, tensors[qkv.index], rows)
            case PagedAttention(q=q):
                out = self._paged_attention(op, tensors[q.index], rows)
            case GatherRows(x=x):
                out = tensors[x.index][step.sample_rows]
        return out

    def _linear(self, op: Linear, tensors: dict[int, Array]) -> Array:
        parts = []
        for weight, bias in zip(op.weights, op.biases, strict=True):
            product = matmul(tensors[op.x.index], self._weights[weight.name])
            parts.append(product if bias is None else product + self._weights[bias.name])
        out = np.concatenate(parts, axis=1)
        return out if op.residual is None else out + tensors[op.residual.index]

    def _rope_and_store(self, op: RopeAndStore, qkv: Array, rows: Rows) -> Array:
        cache, spec = self._caches[op.cache], self._program.caches[op.cache]
        heads = qkv.reshape(len(qkv), op.num_heads + 2 * spec.num_kv_heads, spec.head_dim)
        q, k, v = np.split(heads, [op.num_heads, op.num_heads + spec.num_kv_heads], axis=1)
        if op.q_norm is not None:
            q = rms_norm(q, self._weights[op.q_norm.name], op.eps)
        if op.k_norm is not None:
            k = rms_norm(k, self._weights[op.k_norm.name], op.eps)
        blocks = rows.tables[np.arange(len(qkv)), rows.positions // self._limits.block_tokens]
        offsets = rows.positions % self._limits.block_tokens
        cache.keys[blocks, offsets] = turn(k, rows.positions, op.rope)
        cache.values[blocks, offsets] = v
        return turn(q, rows.positions, op.rope).reshape(len(qkv), op.out.cols)

    def _paged_attention(self, op: PagedAttention, q: Array, rows: Rows) -> Array:
        cache = self._caches[op.cache]
        out = np.empty_like(q)
        for t, position in enumerate(rows.positions):
            keys, values = cache.up_to(rows.tables[t], position + 1)
            if op.window is not None:
                keys, values = keys[-op.window :], values[-op.window :]
            out[t] = attention(q[t].reshape(op.num_heads, -1), keys, values, op.scale).reshape(-1)
        return out


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis."""
    mean_square: Array = np.square(x).mean(axis=-1, keepdims=True)
    normed: Array = x / np.sqrt(mean_square + np.float32(eps))
    return normed * weight


def matmul(x: Array, weight: Array) -> Array:
    """x [rows, in] times weight [out, in] transposed, row by row: a row's bits do not depend on its neighbours."""
    out = np.empty((len(x), len(weight)), np.float32)
    for row, result in zip(x, out, strict=True):
        np.matmul(weight, row, out=result)
    return out


def swiglu(x: Array) -> Array:
    """silu(gate) * up for x = [gate | up]."""
    gate, up = np.split(x, 2, axis=1)
    return gate * sigmoid(gate) * up


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x) without overflow: only e^-|x| is taken."""
    small: Array = np.exp(-np.abs(x))
    numerator: Array = np.where(x >= 0, np.float32(1), small)
    return numerator / (small + 1)


def turn(heads: Array, positions: NDArray[np.int64], rope: RopeSpec) -> Array:
    """Turn the pairs of heads [T, heads, D] by position * inv_freq. Angles are float64: they are large."""
    angles = positions[:, None, None] * np.array(rope.inv_freq)
    cos, sin = (np.float32(rope.scale) * part.astype(np.float32) for part in (np.cos(angles), np.sin(angles)))
    num_pairs = len(rope.inv_freq)
    if rope.interleaved:
        first, second = slice(0, 2 * num_pairs, 2), slice(1, 2 * num_pairs, 2)
    else:
        first, second = slice(0, num_pairs), slice(num_pairs, 2 * num_pairs)
    out = heads.copy()
    out[..., first] = heads[..., first] * cos - heads[..., second] * sin
    out[..., second] = heads[..., second] * cos + heads[..., first] * sin
    return out


def attention(q: Array, keys: Array, values: Array, scale: float) -> Array:
    """softmax(q k^T * scale) v of one token: q [H, D], keys and values [positions, G, D]; head h reads h // (H / G)."""
    num_kv_heads = keys.shape[1]
    grouped = q.reshape(num_kv_heads, -1, q.shape[-1])
    scores = grouped @ keys.transpose(1, 2, 0) * np.float32(scale)
    return (softmax(scores) @ values.transpose(1, 0, 2)).reshape(q.shape)


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    weights: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total: Array = weights.sum(axis=-1, keepdims=True)
    return weights / total


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
