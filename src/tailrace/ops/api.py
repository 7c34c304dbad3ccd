"""The ops a model is made of, the `Program` they are recorded into, and what a back end must offer.

A model composes ops on symbolic tensors whose only free sizes are `tokens` (T, the tokens of a step) and `samples` (S,
the rows that go through the head). The recorded list is the `Program`; back ends run it. Everything here is plain data.

How DeepSeek fits without a new design (the ops its models will add; nothing below changes for them):

    MLA    q = linear(x, Wq)  or  linear(rms_norm(linear(x, Wqa)), Wqb)          [T, H*(dn+dr)]
           u = linear(x, Wkva)                                                   [T, r+dr]
           q = mla_rope_and_store(q, u, kv_norm, rope)   rotates q_r and k_r; stores [norm(c) ; k_r], r+dr a token
           o = mla_attention(q, Wkvb, scale)             absorbed or expanded is the back end's choice  [T, H*dv]
           The cache is a KvCacheSpec with one "head" of r+dr values and no separate V.
    MoE    routing = route_experts(x, gate, bias, groups, top_k, ...)            [T, K] ids and weights
           y = experts(x, routing, gate_up, down)        one grouped GEMM per projection, tokens sorted once a step
           x = linear(swiglu(linear(h, shared gate, shared up)), shared down, residual=y)
    DSA    index_and_store / select_top_k in front of mla_attention, with a second KvCacheSpec for the index keys.
    TP     all_reduce, an op like any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tailrace.ops.packed import PackedTensor

__all__ = [
    "MAX_TOP_LOGPROBS",
    "Backend",
    "Embed",
    "Executable",
    "GatherRows",
    "KvCacheSpec",
    "KvFormat",
    "Limits",
    "Linear",
    "Op",
    "PagedAttention",
    "Program",
    "ProgramBuilder",
    "RmsNorm",
    "RopeAndStore",
    "RopeSpec",
    "SampleOutputs",
    "SamplingInputs",
    "StepInputs",
    "SwiGlu",
    "Tensor",
    "Weight",
]

MAX_TOP_LOGPROBS = 20

Rows = Literal["tokens", "samples"]
KvFormat = Literal["bf16", "int8", "f32"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A symbolic float32 activation of `cols` columns; its rows are the step's tokens or samples."""

    index: int
    rows: Rows
    cols: int


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight by its name in our naming (`models`), with the shape the model expects."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary positions: pair i turns by position * inv_freq[i]; cos and sin are multiplied by `scale`.

    Pairs are (2i, 2i+1) when `interleaved` (GPT-J), else (i, i + dim/2) (NeoX). Only the first 2*len(inv_freq) of a
    head turn.
    """

    inv_freq: tuple[float, ...]
    scale: float = 1.0
    interleaved: bool = False


@dataclass(frozen=True, slots=True)
class KvCacheSpec:
    """What one layer keeps of a token: `num_kv_heads` keys and values of `head_dim` each."""

    num_kv_heads: int
    head_dim: int

    @property
    def num_values(self) -> int:
        return 2 * self.num_kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class Embed:
    """out[t] = table[token_ids[t]]."""

    table: Weight
    out: Tensor


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """out = x / sqrt(mean(x^2) + eps) * weight, over the columns."""

    x: Tensor
    weight: Weight
    eps: float
    out: Tensor


@dataclass(frozen=True, slots=True)
class Linear:
    """out = [x W0^T + b0 | x W1^T + b1 | ...] + residual: one input, the outputs side by side."""

    x: Tensor
    weights: tuple[Weight, ...]
    biases: tuple[Weight | None, ...]
    residual: Tensor | None
    out: Tensor


@dataclass(frozen=True, slots=True)
class SwiGlu:
    """out = silu(x[:, :n]) * x[:, n:] with n = out.cols."""

    x: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class RopeAndStore:
    """Split qkv [T, (H + 2G) * D]; norm q and k heads if asked; turn both; cache k and v; out = q [T, H * D].

    `q_norm` and `k_norm` are RMSNorm weights [D] applied to each head before turning (Qwen3).
    """

    qkv: Tensor
    cache: int  # index into Program.caches
    num_heads: int
    rope: RopeSpec
    q_norm: Weight | None
    k_norm: Weight | None
    eps: float
    out: Tensor


@dataclass(frozen=True, slots=True)
class PagedAttention:
    """Causal attention of q [T, H * D] over the cache: each row sees its sequence's positions up to its own.

    Head h reads KV head h // (H / G). `window`: only the last `window` positions, its own included; None: all.
    """

    q: Tensor
    cache: int
    num_heads: int
    scale: float
    window: int | None
    out: Tensor


@dataclass(frozen=True, slots=True)
class GatherRows:
    """out[s] = x[sample_rows[s]]: from tokens to samples."""

    x: Tensor
    out: Tensor


Op = Embed | RmsNorm | Linear | SwiGlu | RopeAndStore | PagedAttention | GatherRows


@dataclass(frozen=True, slots=True)
class Program:
    """A recorded model: ops in order, the caches they use, and the last output, the logits [S, vocab]."""

    ops: tuple[Op, ...]
    caches: tuple[KvCacheSpec, ...]
    logits: Tensor
    num_tensors: int

    @property
    def weights(self) -> dict[str, Weight]:
        """Every weight the program reads, by name."""
        found: dict[str, Weight] = {}
        for op in self.ops:
            for weight in _weights_of(op):
                found[weight.name] = weight
        return found

    @property
    def kv_values_per_token(self) -> int:
        return sum(cache.num_values for cache in self.caches)


def _weights_of(op: Op) -> tuple[Weight, ...]:
    match op:
        case Embed(table=table):
            return (table,)
        case RmsNorm(weight=weight):
            return (weight,)
        case Linear(weights=weights, biases=biases):
            return (*weights, *(bias for bias in biases if bias is not None))
        case RopeAndStore(q_norm=q_norm, k_norm=k_norm):
            return tuple(norm for norm in (q_norm, k_norm) if norm is not None)
        case _:
            return ()


class ProgramBuilder:
    """Records ops; checks shapes once, here, with the op's name in the message."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._caches: list[KvCacheSpec] = []
        self._num_tensors = 0

    def embed(self, table: Weight) -> Tensor:
        out = self._tensor("tokens", table.shape[1])
        self._ops.append(Embed(table, out))
        return out

    def rms_norm(self, x: Tensor, weight: Weight, eps: float) -> Tensor:
        _check(weight.shape == (x.cols,), f"rms_norm: weight {weight.name} {weight.shape} for {x.cols} columns")
        out = self._tensor(x.rows, x.cols)
        self._ops.append(RmsNorm(x, weight, eps, out))
        return out

    def linear(
        self,
        x: Tensor,
        *weights: Weight,
        biases: tuple[Weight | None, ...] | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        for weight in weights:
            _check(weight.shape[1] == x.cols, f"linear: weight {weight.name} {weight.shape} for {x.cols} columns")
        out = self._tensor(x.rows, sum(weight.shape[0] for weight in weights))
        _check(residual is None or residual.cols == out.cols, "linear: the residual has another width than the output")
        self._ops.append(Linear(x, weights, biases or (None,) * len(weights), residual, out))
        return out

    def swiglu(self, x: Tensor) -> Tensor:
        _check(x.cols % 2 == 0, f"swiglu: {x.cols} columns are not gate and up side by side")
        out = self._tensor(x.rows, x.cols // 2)
        self._ops.append(SwiGlu(x, out))
        return out

    def kv_cache(self, num_kv_heads: int, head_dim: int) -> int:
        """Declare the cache of one layer; the index goes into rope_and_store and paged_attention."""
        self._caches.append(KvCacheSpec(num_kv_heads, head_dim))
        return len(self._caches) - 1

    def rope_and_store(
        self,
        qkv: Tensor,
        cache: int,
        num_heads: int,
        rope: RopeSpec,
        *,
        q_norm: Weight | None = None,
        k_norm: Weight | None = None,
        eps: float = 0.0,
    ) -> Tensor:
        spec = self._caches[cache]
        expected = (num_heads + 2 * spec.num_kv_heads) * spec.head_dim
        _check(qkv.cols == expected, f"rope_and_store: {qkv.cols} columns, expected {expected}")
        _check(2 * len(rope.inv_freq) <= spec.head_dim, "rope_and_store: more rotary dimensions than the head has")
        out = self._tensor("tokens", num_heads * spec.head_dim)
        self._ops.append(RopeAndStore(qkv, cache, num_heads, rope, q_norm, k_norm, eps, out))
        return out

    def paged_attention(self, q: Tensor, cache: int, num_heads: int, scale: float, window: int | None = None) -> Tensor:
        spec = self._caches[cache]
        _check(
            num_heads % spec.num_kv_heads == 0, f"paged_attention: {num_heads} heads over {spec.num_kv_heads} KV heads"
        )
        out = self._tensor("tokens", q.cols)
        self._ops.append(PagedAttention(q, cache, num_heads, scale, window, out))
        return out

    def gather_rows(self, x: Tensor) -> Tensor:
        out = self._tensor("samples", x.cols)
        self._ops.append(GatherRows(x, out))
        return out

    def finish(self, logits: Tensor) -> Program:
        _check(logits.rows == "samples", "a program ends with logits of the sampled rows: gather_rows is missing")
        return Program(tuple(self._ops), tuple(self._caches), logits, self._num_tensors)

    def _tensor(self, rows: Rows, cols: int) -> Tensor:
        self._num_tensors += 1
        return Tensor(self._num_tensors - 1, rows, cols)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a step and of the KV pool; buffers are planned for them once."""

    max_tokens: int  # T of a step
    max_samples: int  # S of a step
    max_sequences: int  # rows of the block table matrix
    max_model_tokens: int  # positions of one sequence
    num_blocks: int
    block_tokens: int
    num_threads: int

    @property
    def max_blocks_per_sequence(self) -> int:
        return -(-self.max_model_tokens // self.block_tokens)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One step as arrays, all int32 and contiguous. N sequences, T tokens, S samples.

    Rows [row_starts[n], row_starts[n + 1]) belong to sequence n and hold its positions starts[n], starts[n] + 1, ...
    Position p of sequence n lives in row p % block_tokens of block block_tables[slots[n], p // block_tokens].
    """

    token_ids: "NDArray[np.int32]"  # [T]
    row_starts: "NDArray[np.int32]"  # [N + 1]
    starts: "NDArray[np.int32]"  # [N]
    slots: "NDArray[np.int32]"  # [N]
    block_tables: "NDArray[np.int32]"  # [max_sequences, max_blocks_per_sequence]
    sample_rows: "NDArray[np.int32]"  # [S]


@dataclass(frozen=True, slots=True)
class SamplingInputs:
    """How each sampled row is drawn, S rows. Ragged parts: row s owns [starts[s], starts[s + 1]).

    Order: repetition, frequency and presence penalty over the history; then the biases; then, unless temperature is 0
    (arg max, lowest id among equals): divide by temperature, keep min_p, top_k, top_p, draw by (seed, position).
    Log probabilities are those of the model, before all of this.
    """

    temperature: "NDArray[np.float32]"
    top_p: "NDArray[np.float32]"
    top_k: "NDArray[np.int32]"
    min_p: "NDArray[np.float32]"
    seed: "NDArray[np.uint64]"
    position: "NDArray[np.int64]"  # of the token to be drawn
    num_logprobs: "NDArray[np.int32]"  # -1: none
    repetition_penalty: "NDArray[np.float32]"
    frequency_penalty: "NDArray[np.float32]"
    presence_penalty: "NDArray[np.float32]"
    history_starts: "NDArray[np.int32]"  # [S + 1]; empty rows have no penalty
    history_ids: "NDArray[np.int32]"  # prompt, then output
    history_prompt_tokens: "NDArray[np.int32]"  # of each row's history, how many are prompt
    bias_starts: "NDArray[np.int32]"  # [S + 1]
    bias_ids: "NDArray[np.int32]"
    bias_values: "NDArray[np.float32]"  # -inf forbids a token


@dataclass(frozen=True, slots=True)
class SampleOutputs:
    """Drawn tokens; log probabilities are filled for rows with num_logprobs >= 0."""

    token_ids: "NDArray[np.int32]"  # [S]
    logprobs: "NDArray[np.float32]"  # [S]
    top_ids: "NDArray[np.int32]"  # [S, MAX_TOP_LOGPROBS], best first
    top_logprobs: "NDArray[np.float32]"  # [S, MAX_TOP_LOGPROBS]


class Executable(Protocol):
    """A program with its weights and its KV pool on one device."""

    @property
    def kv_bytes_per_block(self) -> int: ...

    @property
    def weight_bytes(self) -> int: ...

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        """Compute a step and draw the samples. One thread at a time; outputs are valid until the next call."""
        ...

    def logits(self, step: StepInputs) -> "NDArray[np.float32]":
        """Compute a step and return the logits [S, vocab] themselves."""
        ...

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first rows of one block to another, all caches."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Runs programs on one kind of device."""

    @property
    def name(self) -> str: ...

    @property
    def kv_format(self) -> KvFormat:
        """How keys and values are kept."""
        ...

    def kv_bytes_per_block(self, program: Program, block_tokens: int) -> int:
        """Memory of one block in all caches of the program, known before anything is loaded."""
        ...

    def load(self, program: Program, weights: "Mapping[str, PackedTensor]", limits: Limits) -> Executable:
        """Take the weights into this back end's own layout and plan all buffers."""
        ...
