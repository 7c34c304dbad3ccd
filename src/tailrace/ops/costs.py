"""What the ops of a step cost: bytes that have to be moved, and multiplications and additions. Exact, not measured.

Bytes are those of weights, each once a step, as the back end keeps them, and of keys and values that are read and
written: they lie in memory, and no cache holds them from step to step. Activations are not counted: between two ops
they stay in caches, but for the logits of very many rows. Nor is anything that is read twice because a cache was too
small; so what really moves can be more, and never less.

Operations are two for each product that is added up in a matrix, in attention or in an index. What is done value by
value (norms, rotations, gates, softmax) is not counted: it is less than a hundredth of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.op_kinds import OpKind, kinds_of
from tailrace.ops.program import (
    Embed,
    Experts,
    LatentAttention,
    Linear,
    Op,
    PagedAttention,
    Program,
    RmsNorm,
    RopeAndStore,
    SelectPositions,
    Weight,
)
from tailrace.ops.step_work import (
    AnyRows,
    ChosenExperts,
    MetPositions,
    NumRows,
    Quantity,
    ReadPositions,
    Sight,
    StepWork,
)

__all__ = ["Cost", "ProgramCosts", "Realisation"]

_PER_PRODUCT = 2  # a multiplication and an addition
_Amount = Mapping[Quantity, float]  # of each so much


@dataclass(frozen=True, slots=True)
class Realisation:
    """How a back end keeps what a program reads, and how it computes what can be computed in several ways."""

    weight_bytes: Mapping[str, float]
    position_bytes: Sequence[float]  # of each cache, what one position takes, scales and padding included
    expands_latents: bool = False  # the form of latent attention; else the absorbed one
    scores_all: bool = False  # an index looks at positions even where a row may see all of them

    def bytes_of(self, *weights: Weight | None) -> float:
        return sum(self.weight_bytes[weight.name] for weight in weights if weight is not None)


@dataclass(frozen=True, slots=True)
class Cost:
    """A part of an op, as a sum over quantities of a step."""

    kind: OpKind
    num_bytes: _Amount
    num_ops: _Amount


class ProgramCosts:
    """The costs of a program's ops, of each of their kinds apart: `parts` are the ops' numbers with the kinds."""

    def __init__(self, program: Program, realisation: Realisation) -> None:
        found = [(number, cost) for number, of_op in enumerate(_costs(program, realisation)) for cost in of_op]
        self.parts = tuple((number, cost.kind) for number, cost in found)
        amounts = [amount for _, cost in found for amount in (cost.num_bytes, cost.num_ops)]
        self._quantities = tuple(dict.fromkeys(quantity for amount in amounts for quantity in amount))
        self._num_bytes = self._matrix([cost.num_bytes for _, cost in found])
        self._num_ops = self._matrix([cost.num_ops for _, cost in found])

    def of(self, work: StepWork) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bytes and operations of each part, in a step."""
        amounts = np.array([quantity.of(work) for quantity in self._quantities], np.float64)
        return self._num_bytes @ amounts, self._num_ops @ amounts

    def _matrix(self, amounts: Sequence[_Amount]) -> NDArray[np.float64]:
        """[parts, quantities]."""
        rows = [[amount.get(quantity, 0.0) for quantity in self._quantities] for amount in amounts]
        return np.array(rows, np.float64).reshape(len(amounts), len(self._quantities))


def _costs(program: Program, realisation: Realisation) -> Iterator[Iterable[Cost]]:
    """Of each op, in order."""
    num_mixtures = 0
    for op, kind in zip(program.ops, kinds_of(program), strict=True):
        match op:
            case Experts():
                yield _experts(op, realisation, num_mixtures)
                num_mixtures += 1
            case PagedAttention(cache=cache):
                yield _paged_attention(op, realisation.position_bytes[cache], program.caches[cache].head_dim)
            case LatentAttention():
                yield _latent_attention(op, realisation)
            case SelectPositions():
                yield _select_positions(op, realisation)
            case _:
                yield _by_rows(op, kind, realisation)


def _by_rows(op: Op, kind: OpKind, realisation: Realisation) -> Iterator[Cost]:
    """Ops whose rows do not meet other positions."""
    rows, once = NumRows(op.out.rows), AnyRows(op.out.rows)
    match op:
        case Embed(table=table):
            yield Cost(kind, {rows: realisation.bytes_of(table) / table.shape[0]}, {})
        case RmsNorm(weight=weight):
            yield Cost(kind, {once: realisation.bytes_of(weight)}, {})
        case Linear(weights=weights, biases=biases):
            products = sum(prod(weight.shape) for weight in weights)
            yield Cost(kind, {once: realisation.bytes_of(*weights, *biases)}, {rows: _PER_PRODUCT * products})
        case RopeAndStore(cache=cache, q_norm=q_norm, k_norm=k_norm):
            written = realisation.position_bytes[cache]
            yield Cost(kind, {rows: written, once: realisation.bytes_of(q_norm, k_norm)}, {})
        case _:
            pass


def _paged_attention(op: PagedAttention, position_bytes: float, head_dim: int) -> Iterator[Cost]:
    """Each head's query times keys, and its weights times values."""
    sight = Sight(window=op.window)
    products = op.num_heads * 2 * head_dim
    yield Cost(OpKind.ATTENTION, {ReadPositions(sight): position_bytes}, {MetPositions(sight): _PER_PRODUCT * products})


def _latent_attention(op: LatentAttention, realisation: Realisation) -> Iterator[Cost]:
    rows, once = NumRows("tokens"), AnyRows("tokens")
    position_bytes = realisation.position_bytes[op.cache]
    sight = Sight(num_selected=None if op.selection is None else op.selection.cols)
    met, read = MetPositions(sight), ReadPositions(sight)
    projecting = op.num_heads * op.latent_dim * (op.plain_dim + op.value_dim)
    matrices = realisation.bytes_of(op.k_b, op.v_b)
    yield Cost(OpKind.ROPE, {rows: position_bytes, once: realisation.bytes_of(op.norm)}, {})
    if realisation.expands_latents:  # each row makes keys and values of all latents that it meets
        products = projecting + op.num_heads * (op.plain_dim + op.rope_dim + op.value_dim)
        yield Cost(OpKind.ATTENTION, {read: position_bytes, once: matrices}, {met: _PER_PRODUCT * products})
    else:
        products = op.num_heads * (op.latent_dim + op.rope_dim + op.latent_dim)
        yield Cost(OpKind.LATENT, {once: matrices}, {rows: _PER_PRODUCT * projecting})
        yield Cost(OpKind.ATTENTION, {read: position_bytes}, {met: _PER_PRODUCT * products})


def _select_positions(op: SelectPositions, realisation: Realisation) -> Iterator[Cost]:
    """The token's key is written; each head's query times keys, and the heads' weights times that."""
    sight = Sight(num_free=0 if realisation.scores_all else op.top_k)
    position_bytes = realisation.position_bytes[op.cache]
    norms = realisation.bytes_of(op.norm, op.norm_bias)
    num_bytes: _Amount = {
        NumRows("tokens"): position_bytes,
        AnyRows("tokens"): norms,
        ReadPositions(sight): position_bytes,
    }
    products = op.num_heads * (op.k.cols + 1)
    yield Cost(OpKind.INDEX, num_bytes, {MetPositions(sight): _PER_PRODUCT * products})


def _experts(op: Experts, realisation: Realisation, mixture: int) -> Iterator[Cost]:
    """The weights of the experts that some row has chosen, and each row's products with those of its own."""
    rows, once = NumRows(op.out.rows), AnyRows(op.out.rows)
    matrices, count = (op.gate, op.up, op.down), op.routing.num_experts
    products = op.routing.top_k * sum(prod(weight.shape) for weight in matrices) / count
    num_bytes: _Amount = {
        ChosenExperts(mixture): realisation.bytes_of(*matrices) / count,
        once: realisation.bytes_of(op.bias),
    }
    yield Cost(OpKind.EXPERTS, num_bytes, {rows: _PER_PRODUCT * products})
