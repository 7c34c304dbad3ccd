"""The ops a model is made of, and the `Program` they are recorded into. Everything here is plain data.

An op is as large as a stage: what a back end can fuse is one op. Its docstring is its specification.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

__all__ = [
    "Embed",
    "Experts",
    "GatherRows",
    "KvCacheSpec",
    "LatentAttention",
    "Linear",
    "Op",
    "PagedAttention",
    "Program",
    "RmsNorm",
    "RopeAndStore",
    "RopeSpec",
    "Routing",
    "Rows",
    "SelectPositions",
    "SwiGlu",
    "Tensor",
    "Weight",
]

Rows = Literal["tokens", "samples"]


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
    """What one layer keeps of a token: `num_kv_heads` keys of `head_dim` numbers, and as many values.

    Without `has_values`, keys alone: latent attention reads its values out of them, an index has none.
    """

    num_kv_heads: int
    head_dim: int
    has_values: bool = True

    @property
    def num_values(self) -> int:
        return (2 if self.has_values else 1) * self.num_kv_heads * self.head_dim


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
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): all between the projections in and out.

    q [T, H * (dn + dr)]: of each head, dn plain values and dr that turn. latent [T, r + dr]: of each token, what the
    cache keeps once it is normed and turned, [c ; k] = [rms_norm(latent[:r]) ; turn(latent[r:])].

        absorbed   score(t, h, s) = scale * ([k_b_h q_plain ; turn(q_rope)] . [c_s ; k_s])     r + dr products
                   out[t, h] = v_b_h sum_s softmax(score)_s c_s                                [T, H * dv]
        expanded   score(t, h, s) = scale * ([q_plain ; turn(q_rope)] . [k_b_h^T c_s ; k_s])   dn + dr products
                   out[t, h] = sum_s softmax(score)_s v_b_h c_s

    The two are equal but for rounding. k_b [H * r, dn] and v_b [H * dv, r] hold the heads' matrices one below the
    other. A row sees its sequence's positions s up to its own; with `selection`, those that SelectPositions chose.
    """

    q: Tensor
    latent: Tensor
    cache: int  # one key of r + dr, no values
    num_heads: int
    norm: Weight
    eps: float
    rope: RopeSpec  # of the dr values
    k_b: Weight
    v_b: Weight
    scale: float
    selection: Tensor | None
    out: Tensor

    @property
    def plain_dim(self) -> int:
        """dn."""
        return self.k_b.shape[1]

    @property
    def rope_dim(self) -> int:
        """dr."""
        return 2 * len(self.rope.inv_freq)

    @property
    def latent_dim(self) -> int:
        """r."""
        return self.v_b.shape[1]

    @property
    def value_dim(self) -> int:
        """dv."""
        return self.v_b.shape[0] // self.num_heads


@dataclass(frozen=True, slots=True)
class SelectPositions:
    """The lightning indexer of DeepSeek sparse attention (V3.2): which positions each row may see.

    q [T, H * D], k [T, D], head_weights [T, H]. The cache keeps turn(layer_norm(k, norm, norm_bias, eps)); of keys and
    queries the first 2 * len(inv_freq) values turn.

        index(t, s) = sum_h head_weights[t, h] * relu(turn(q)[t, h] . key_s)

    (The published factor (D * H) ** -0.5 changes no order.) out [T, top_k]: of the positions s <= t the top_k with the
    largest index, the earlier ones among equals, in ascending order, as float32 numbers; -1 where there are fewer.
    """

    q: Tensor
    k: Tensor
    head_weights: Tensor
    cache: int  # one key of D, no values
    norm: Weight
    norm_bias: Weight
    eps: float
    rope: RopeSpec
    out: Tensor

    @property
    def num_heads(self) -> int:
        return self.head_weights.cols

    @property
    def top_k(self) -> int:
        return self.out.cols


@dataclass(frozen=True, slots=True)
class Routing:
    """How a row chooses `top_k` of `num_experts` experts by its router logits, and what each counts.

    scores = softmax or sigmoid of the logits; ranks = scores (+ bias). Experts lie in `num_groups` equal groups of
    neighbours; only those of the `top_groups` best groups can be chosen, a group's rank being its largest ("max") or
    the sum of its two largest ("top two"). Chosen are the top_k by rank, the lower number among equals. A chosen
    expert's weight is its score, divided by the sum of the chosen (plus 1e-20) if `normalize`, times `scale`.
    """

    num_experts: int
    top_k: int
    scoring: Literal["softmax", "sigmoid"]
    num_groups: int = 1
    top_groups: int = 1
    group_rank: Literal["max", "top two"] = "max"
    normalize: bool = False
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of gated MLPs: out = residual + sum over the chosen e of weight_e * down_e(silu(gate_e x) * up_e x).

    logits [rows, E] go through `routing`; `bias` [E] is added to the ranks alone. gate and up [E * I, d] and
    down [E * d, I] hold the experts' matrices one below the other.
    """

    x: Tensor
    logits: Tensor
    bias: Weight | None
    routing: Routing
    gate: Weight
    up: Weight
    down: Weight
    residual: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class GatherRows:
    """out[s] = x[sample_rows[s]]: from tokens to samples."""

    x: Tensor
    out: Tensor


Op = (
    Embed
    | RmsNorm
    | Linear
    | SwiGlu
    | RopeAndStore
    | PagedAttention
    | LatentAttention
    | SelectPositions
    | Experts
    | GatherRows
)


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
        return {weight.name: weight for op in self.ops for weight in _weights_of(op)}

    @property
    def kv_values_per_token(self) -> int:
        return sum(cache.num_values for cache in self.caches)


def _weights_of(op: Op) -> Iterator[Weight]:
    for field in fields(op):
        value = getattr(op, field.name)
        yield from (part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Weight))
