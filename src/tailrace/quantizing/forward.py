"""Runs recorded ops over whole sequences, many rows at a time, by the reference's formulas: to calibrate, to measure.

Weights are read as an op needs them and not kept, so that a model of any size runs in the memory of a layer. A row's
bits may depend on its neighbours here, which nobody who calibrates minds; the reference remains the specification.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.program import (
    Embed,
    Experts,
    GatherRows,
    LatentAttention,
    Linear,
    Op,
    PagedAttention,
    RmsNorm,
    RopeAndStore,
    SelectPositions,
    SwiGlu,
    Tensor,
    Weight,
)
from tailrace.ops.reference_experts import route
from tailrace.ops.reference_math import Array, layer_norm, rms_norm, swiglu, turn
from tailrace.quantizing.attention import causal, selections

__all__ = ["Forward", "Observe", "ReadRows", "TokenIds", "product"]

TokenIds = NDArray[np.int64]  # [sequences, tokens of each]
ReadRows = Callable[[str, int, int], Array]  # of a weight by our name, rows [begin, end)
Observe = Callable[[str, int, Array], None]  # weight, which of its matrices, the rows it is given

_MIN_CHUNK_ROWS = 64


def _nobody(_name: str, _matrix: int, _rows: Array) -> None:
    """Looks at nothing."""


@dataclass(slots=True)
class Forward:
    """One pass. `tensors` are what ops computed, [tokens, cols] by index; `observe` sees what every matrix is given."""

    token_ids: TokenIds
    read: ReadRows
    tensors: dict[int, Array] = field(default_factory=dict)
    observe: Observe = _nobody
    _kept: dict[int, tuple[Array, Array]] = field(default_factory=dict)  # keys and values by cache

    def run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            self.tensors[op.out.index] = self._compute(op)

    def _compute(self, op: Op) -> Array:
        match op:
            case Embed(table=table):
                out = self._embedded(table)
            case RmsNorm(x=x, weight=weight, eps=eps):
                out = rms_norm(self[x], self._whole(weight), eps)
            case Linear():
                out = self._linear(op)
            case SwiGlu(x=x):
                out = swiglu(self[x])
            case Experts():
                out = self._experts(op)
            case GatherRows(x=x):
                out = self[x]  # every row is looked at
            case _:
                out = self._through_cache(op)
        return out

    def _through_cache(self, op: RopeAndStore | PagedAttention | LatentAttention | SelectPositions) -> Array:
        match op:
            case RopeAndStore():
                return self._turned(op)
            case PagedAttention():
                keys, values = self._kept.pop(op.cache)
                q = self._heads(self[op.q], op.num_heads)
                return causal(q, keys, values, op.scale, op.window)
            case LatentAttention():
                return self._latent(op)
            case SelectPositions():
                return self._selected(op)

    def __getitem__(self, tensor: Tensor) -> Array:
        return self.tensors[tensor.index]

    def _whole(self, weight: Weight) -> Array:
        return self.read(weight.name, 0, weight.shape[0])

    def _matrix(self, weight: Weight, matrix: int, count: int) -> Array:
        """One of `count` matrices that lie below each other."""
        height = weight.shape[0] // count
        return self.read(weight.name, matrix * height, (matrix + 1) * height)

    def _embedded(self, table: Weight) -> Array:
        used, places = np.unique(self.token_ids, return_inverse=True)
        rows = np.concatenate([self.read(table.name, token, token + 1) for token in used.tolist()])
        return rows[places.reshape(-1)]

    def _linear(self, op: Linear) -> Array:
        parts = []
        for weight, bias in zip(op.weights, op.biases, strict=True):
            self.observe(weight.name, 0, self[op.x])
            out = product(self[op.x], self._whole(weight))
            parts.append(out if bias is None else out + self._whole(bias))
        joined = np.concatenate(parts, axis=1)
        return joined if op.residual is None else joined + self[op.residual]

    def _experts(self, op: Experts) -> Array:
        x, out, count = self[op.x], self[op.residual].copy(), op.routing.num_experts
        bias = None if op.bias is None else self._whole(op.bias)
        weights = np.zeros((len(x), count), np.float32)
        for row, logits in zip(weights, self[op.logits], strict=True):
            chosen, of_chosen = route(logits, bias, op.routing)
            row[chosen] = of_chosen
        for expert in range(count):
            rows = np.flatnonzero(weights[:, expert])
            if len(rows):
                out[rows] += weights[rows, expert, None] * self._expert(op, expert, x[rows])
        return out

    def _expert(self, op: Experts, expert: int, x: Array) -> Array:
        count = op.routing.num_experts
        for weight in (op.gate, op.up):
            self.observe(weight.name, expert, x)
        gate_up = [product(x, self._matrix(weight, expert, count)) for weight in (op.gate, op.up)]
        inner = swiglu(np.concatenate(gate_up, axis=1))
        self.observe(op.down.name, expert, inner)
        return product(inner, self._matrix(op.down, expert, count))

    def _turned(self, op: RopeAndStore) -> Array:
        qkv = self[op.qkv]
        head_dim = op.out.cols // op.num_heads
        num_kv_heads = (qkv.shape[1] // head_dim - op.num_heads) // 2
        heads = qkv.reshape(len(qkv), -1, head_dim)
        q, k, v = np.split(heads, [op.num_heads, op.num_heads + num_kv_heads], axis=1)
        if op.q_norm is not None:
            q = rms_norm(q, self._whole(op.q_norm), op.eps)
        if op.k_norm is not None:
            k = rms_norm(k, self._whole(op.k_norm), op.eps)
        keys, positions = turn(k, self._positions, op.rope), self._positions
        self._kept[op.cache] = self._sequences(keys), self._sequences(v)
        return turn(q, positions, op.rope).reshape(len(qkv), -1)

    def _latent(self, op: LatentAttention) -> Array:
        """The expanded form: every head gets keys and values of its own out of the latents."""
        heads, (c, k) = op.num_heads, np.split(self[op.latent], [op.latent_dim], axis=1)
        c = rms_norm(c, self._whole(op.norm), op.eps)
        plain, rope = np.split(self[op.q].reshape(len(c), heads, -1), [op.plain_dim], axis=2)
        shared = np.broadcast_to(turn(k[:, None], self._positions, op.rope), (len(c), heads, op.rope_dim))
        for head in range(heads):
            self.observe(op.k_b.name, head, plain[:, head])
        self.observe(op.v_b.name, 0, c)
        of_heads = [product(c, self._matrix(op.k_b, head, heads).T) for head in range(heads)]
        keys = np.concatenate([np.stack(of_heads, axis=1), shared], axis=2)
        values = product(c, self._whole(op.v_b)).reshape(len(c), heads, -1)
        q = np.concatenate([plain, turn(rope, self._positions, op.rope)], axis=2)
        seen = None if op.selection is None else self._sequences(self[op.selection])
        by_sequence = self._sequences
        return causal(by_sequence(q), by_sequence(keys), by_sequence(values), op.scale, selection=seen)

    def _selected(self, op: SelectPositions) -> Array:
        q = self[op.q].reshape(len(self[op.q]), op.num_heads, -1)
        normed = layer_norm(self[op.k], self._whole(op.norm), self._whole(op.norm_bias), op.eps)
        queries, keys = (turn(heads, self._positions, op.rope) for heads in (q, normed[:, None]))
        by_sequence = self._sequences
        return selections(by_sequence(queries), by_sequence(keys[:, 0]), by_sequence(self[op.head_weights]), op.top_k)

    @property
    def _positions(self) -> NDArray[np.int64]:
        return np.tile(np.arange(self.token_ids.shape[1]), len(self.token_ids))

    def _sequences(self, rows: Array) -> Array:
        """Rows [tokens, ...] by sequence."""
        return rows.reshape(*self.token_ids.shape, *rows.shape[1:])

    def _heads(self, rows: Array, num_heads: int) -> Array:
        return self._sequences(rows.reshape(len(rows), num_heads, -1))


def product(x: Array, weight: Array) -> Array:
    """x [rows, in] times weight [out, in] transposed, on all processors: numpy's BLAS may have one thread."""
    threads = os.cpu_count() or 1
    step = max(_MIN_CHUNK_ROWS, -(-len(x) // threads))
    out = np.empty((len(x), len(weight)), np.float32)

    def multiply(begin: int) -> None:
        np.matmul(x[begin : begin + step], weight.T, out=out[begin : begin + step])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(multiply, range(0, len(x), step)))
    return out
