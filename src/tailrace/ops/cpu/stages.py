"""The stages that the CPU back end runs, and the buffers between them. Plain data: shapes and names, no arrays."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, fields
from typing import Literal

from tailrace.ops.program import (
    Experts,
    LatentAttention,
    PagedAttention,
    RopeAndStore,
    RopeSpec,
    SelectPositions,
    Tensor,
    Weight,
)

__all__ = [
    "AnglesStage",
    "AttentionStage",
    "Buffer",
    "DispatchStage",
    "EmbedStage",
    "ExpertDownStage",
    "ExpertGatedStage",
    "Form",
    "GatedStage",
    "GatherStage",
    "GemmStage",
    "HeadGemmStage",
    "IndexKeyStage",
    "IndexScoreStage",
    "KernelFormat",
    "LatentAttentionStage",
    "LatentStoreStage",
    "NormStage",
    "QuantizeStage",
    "RopeStage",
    "RouteStage",
    "RowForms",
    "SelectStage",
    "Stage",
    "SwiGluStage",
    "buffers_of",
    "input_form",
    "lifetimes_of",
    "weights_of",
]

Form = Literal["float", "int8"]
KernelFormat = Literal["f32", "f16", "bf16", "q8", "q4", "q8 wide", "q4 wide"]  # wide: scales in float32


def input_form(weights: KernelFormat) -> Form:
    """The form in which weights of this format want their input."""
    return "int8" if weights.startswith("q") else "float"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One tensor in one form: float32, or int8 with a scale for each group of 32 columns."""

    tensor: Tensor
    form: Form


@dataclass(frozen=True, slots=True)
class RowForms:
    """The forms of one tensor that the matrices it meets want: floats, codes, or both."""

    floats: Buffer | None
    codes: Buffer | None

    @classmethod
    def of(cls, tensor: Tensor, forms: Set[Form]) -> "RowForms":
        return cls(*(Buffer(tensor, form) if form in forms else None for form in ("float", "int8")))


@dataclass(frozen=True, slots=True)
class EmbedStage:
    table: Weight
    out: Buffer


@dataclass(frozen=True, slots=True)
class NormStage:
    x: Buffer
    weight: Weight
    eps: float
    out: Buffer | None
    codes: Buffer | None


@dataclass(frozen=True, slots=True)
class QuantizeStage:
    x: Buffer
    codes: Buffer


@dataclass(frozen=True, slots=True)
class GemmStage:
    """`x` feeds the weights kept in floats, `codes` the quantised ones; a stage may have both."""

    x: Buffer | None
    codes: Buffer | None
    weights: tuple[Weight, ...]
    biases: tuple[Weight | None, ...]
    residual: Buffer | None
    out: Buffer


@dataclass(frozen=True, slots=True)
class HeadGemmStage:
    """Each head's columns times its own matrix; the heads' matrices are the rows of `weight`, one below the other.

    Head h reads `inputs` columns of x from h * x_stride on and writes its outputs from h * out_stride on.
    """

    x: Buffer
    weight: Weight
    num_heads: int
    out_stride: int
    out: Buffer

    @property
    def x_stride(self) -> int:
        return self.x.tensor.cols // self.num_heads


@dataclass(frozen=True, slots=True)
class GatedStage:
    """A linear to gate and up, their SwiGLU and its quantisation in one: the wide product is never stored."""

    x: Buffer
    gate: Weight
    up: Weight
    codes: Buffer


@dataclass(frozen=True, slots=True)
class SwiGluStage:
    x: Buffer
    cols: int
    out: Buffer | None
    codes: Buffer | None


@dataclass(frozen=True, slots=True)
class AnglesStage:
    """Cosines and sines of the step's positions, once for all layers that turn alike."""

    rope: RopeSpec
    out: Buffer


@dataclass(frozen=True, slots=True)
class RopeStage:
    qkv: Buffer
    angles: Buffer
    op: RopeAndStore
    out: Buffer


@dataclass(frozen=True, slots=True)
class AttentionStage:
    q: Buffer
    op: PagedAttention
    out: Buffer
    codes: Buffer | None


@dataclass(frozen=True, slots=True)
class LatentStoreStage:
    """A token's normed latent and turned key go into the cache, its turned queries behind where their latents will be.

    `plain`: the part of the queries that does not turn, quantised for the matrices that take it to latents.
    """

    q: Buffer
    latent: Buffer
    angles: Buffer
    op: LatentAttention
    queries: Buffer
    plain: Buffer | None


@dataclass(frozen=True, slots=True)
class LatentAttentionStage:
    """Attention of queries [H * (r + dr)] to latents, [H * r]; r is padded to whole vectors."""

    queries: Buffer
    op: LatentAttention
    selection: Buffer | None
    out: Buffer
    codes: Buffer | None


@dataclass(frozen=True, slots=True)
class IndexKeyStage:
    """The keys of a lightning indexer go into their cache."""

    k: Buffer
    angles: Buffer
    op: SelectPositions


@dataclass(frozen=True, slots=True)
class IndexScoreStage:
    """Where few rows are computed, all threads score their positions; otherwise nothing is left to be done here."""

    q: Buffer
    head_weights: Buffer
    angles: Buffer
    op: SelectPositions


@dataclass(frozen=True, slots=True)
class SelectStage:
    """The positions with the largest scores. `out` holds them as int32."""

    q: Buffer
    head_weights: Buffer
    angles: Buffer
    op: SelectPositions
    out: Buffer


@dataclass(frozen=True, slots=True)
class GatherStage:
    x: Buffer
    out: Buffer


@dataclass(frozen=True, slots=True)
class RouteStage:
    """Each row chooses its experts, and the choices are sorted by expert. Each gives its row a place."""

    op: Experts
    logits: Buffer


@dataclass(frozen=True, slots=True)
class DispatchStage:
    """Rows are copied to their places: `out` has room for top_k of each, side by side as one wider tensor."""

    op: Experts
    x: RowForms
    out: RowForms


@dataclass(frozen=True, slots=True)
class ExpertGatedStage:
    """silu(gate_e x) * (up_e x) of each place; where rows are few, they are read from `x` themselves."""

    op: Experts
    x: RowForms
    places: RowForms
    out: RowForms


@dataclass(frozen=True, slots=True)
class ExpertDownStage:
    """residual + weight_e * (down_e x) over the places of each row."""

    op: Experts
    x: RowForms
    residual: Buffer
    out: Buffer


Stage = (
    EmbedStage
    | NormStage
    | QuantizeStage
    | GemmStage
    | HeadGemmStage
    | GatedStage
    | SwiGluStage
    | AnglesStage
    | RopeStage
    | AttentionStage
    | LatentStoreStage
    | LatentAttentionStage
    | IndexKeyStage
    | IndexScoreStage
    | SelectStage
    | GatherStage
    | RouteStage
    | DispatchStage
    | ExpertGatedStage
    | ExpertDownStage
)


def buffers_of(stage: Stage) -> tuple[Buffer, ...]:
    """Every buffer a stage reads or writes."""
    values = [getattr(stage, field.name) for field in fields(stage)]
    forms = [form for value in values if isinstance(value, RowForms) for form in (value.floats, value.codes)]
    return tuple(value for value in (*values, *forms) if isinstance(value, Buffer))


def lifetimes_of(stages: Sequence[Stage]) -> dict[Buffer, tuple[int, int]]:
    """First and last stage of each buffer. Logits outlive the last stage: nothing is written behind them."""
    lifetimes: dict[Buffer, tuple[int, int]] = {}
    for index, stage in enumerate(stages):
        # Norms and rotations may be left to the threads of the stage behind them: see Stage::prepare in csrc.
        last = index + 1 if isinstance(stage, NormStage | RopeStage) else index
        for buffer in buffers_of(stage):
            first, previous = lifetimes.get(buffer, (index, last))
            lifetimes[buffer] = first, max(previous, last)
    return lifetimes


def weights_of(stage: Stage) -> Iterator[Weight]:
    """The weights that a stage reads, or its op."""
    for field in fields(stage):
        value = getattr(stage, field.name)
        yield from _weights_in([getattr(value, part.name) for part in fields(value)] if field.name == "op" else value)


def _weights_in(value: object) -> Iterator[Weight]:
    match value:
        case Weight():
            yield value
        case tuple() | list():
            for part in value:
                yield from _weights_in(part)
