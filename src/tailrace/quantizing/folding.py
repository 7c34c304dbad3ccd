"""Where numbers between two ops can be scaled: what makes them is divided, what takes them is multiplied.

Only where that is exact, so that the model stays what it was: a norm's weight before linear maps, the router among
them; up before down; values before the output, where heads that share a KV head share its scales.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.program import (
    Experts,
    LatentAttention,
    Linear,
    Op,
    PagedAttention,
    RmsNorm,
    RopeAndStore,
    SwiGlu,
    Tensor,
    Weight,
)

__all__ = ["Fold", "folds"]

Takers = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """`size` numbers, each of which may have a scale."""

    size: int
    divided: tuple[tuple[str, int], ...]  # weight, and its row that makes the first of them
    multiplied: Takers  # weight, and which of its matrices
    columns: NDArray[np.intp]  # the number that each column of these matrices takes
    turned: tuple[str, ...] = ()  # weights whose rows, head by head, take the numbers

    @property
    def weights(self) -> set[str]:
        return {*self.turned, *(weight for weight, _ in (*self.divided, *self.multiplied))}


def folds(ops: Sequence[Op]) -> Iterator[Fold]:
    """Those of one layer."""
    for op in ops:
        match op:
            case RmsNorm(weight=weight, out=out):
                yield from _between([(weight, 0)], out, ops)
            case SwiGlu(x=x, out=out):
                yield from _between(_second_of_two(ops, x), out, ops)
            case Experts():
                yield from _inside(op)
            case PagedAttention():
                yield from _values(op, ops)
            case LatentAttention(v_b=v_b, out=out):
                yield _latents(op)
                yield from _between([(v_b, 0)], out, ops)
            case _:
                pass


def _between(makers: Sequence[tuple[Weight, int]], made: Tensor, ops: Sequence[Op]) -> Iterator[Fold]:
    takers = _takers(ops, made)
    if makers and takers:
        divided = tuple((weight.name, row) for weight, row in makers)
        yield Fold(made.cols, divided, takers, np.arange(made.cols))


def _takers(ops: Sequence[Op], tensor: Tensor) -> Takers:
    """The matrices that multiply `tensor`; none where anything else reads it too."""
    takers: list[tuple[str, int]] = []
    for op in ops:
        match op:
            case Linear(x=x, weights=weights, residual=residual) if x == tensor != residual:
                takers += [(weight.name, 0) for weight in weights]
            case Experts(x=x, logits=logits, residual=residual) if x == tensor and tensor not in (logits, residual):
                both = (op.gate, op.up)
                takers += [(part.name, expert) for part in both for expert in range(op.routing.num_experts)]
            case _ if any(getattr(op, field.name) == tensor for field in fields(op) if field.name != "out"):
                return ()
            case _:
                pass
    return tuple(takers)


def _second_of_two(ops: Sequence[Op], made: Tensor) -> list[tuple[Weight, int]]:
    """Up, in a linear map to gate and up."""
    for op in ops:
        match op:
            case Linear(weights=(_, up), biases=(_, bias), residual=None, out=out) if out == made:
                return [(part, 0) for part in (up, bias) if part is not None]
            case _:
                pass
    return []


def _latents(op: LatentAttention) -> Fold:
    """Behind the norm of latents: v_b takes them by its columns, k_b, which is held turned, by its rows."""
    size = op.latent_dim
    return Fold(size, ((op.norm.name, 0),), ((op.v_b.name, 0),), np.arange(size), turned=(op.k_b.name,))


def _inside(op: Experts) -> Iterator[Fold]:
    size = op.down.shape[1]
    for expert in range(op.routing.num_experts):
        yield Fold(size, ((op.up.name, expert * size),), ((op.down.name, expert),), np.arange(size))


def _values(op: PagedAttention, ops: Sequence[Op]) -> Iterator[Fold]:
    """Heads that read one KV head share its scales."""
    for rope in ops:
        if isinstance(rope, RopeAndStore) and rope.out == op.q:
            for maker in ops:
                match maker:
                    case Linear(weights=(_, _, v), biases=(_, _, bias), residual=None, out=out) if out == rope.qkv:
                        yield from _shared(op, ops, v, bias)
                    case _:
                        pass


def _shared(op: PagedAttention, ops: Sequence[Op], v: Weight, bias: Weight | None) -> Iterator[Fold]:
    takers, size = _takers(ops, op.out), v.shape[0]
    head_dim = op.out.cols // op.num_heads
    of_kv_head = np.arange(size).reshape(-1, 1, head_dim)
    columns = np.repeat(of_kv_head, op.num_heads // len(of_kv_head), axis=1).reshape(-1)
    if takers:
        yield Fold(size, tuple((part.name, 0) for part in (v, bias) if part is not None), takers, columns)
