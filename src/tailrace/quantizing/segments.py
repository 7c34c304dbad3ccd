"""A program cut into its layers: one is computed, quantised and computed again before the next."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import groupby

from tailrace.ops.program import Op, Program, Tensor, Weight
from tailrace.ops.reference_math import Array

__all__ = ["needed_after", "segments", "weights_of"]


def segments(ops: Sequence[Op]) -> list[tuple[Op, ...]]:
    """Embedding, layers, and what comes behind them. An op without weights belongs to the one before it."""
    keys: list[str] = []
    for op in ops:
        weights = weights_of(op)
        keys.append(_layer(weights[0].name) if weights else keys[-1])
    return [tuple(op for op, _ in part) for _, part in groupby(zip(ops, keys, strict=True), key=lambda pair: pair[1])]


def _layer(name: str) -> str:
    return name.split(".")[1] if name.startswith("layers.") else ""


def weights_of(op: Op) -> list[Weight]:
    return [part for part in _operands(op) if isinstance(part, Weight)]


def needed_after(program: Program, ops: Sequence[Op], tensors: dict[int, Array]) -> dict[int, Array]:
    """Of what was computed up to `ops`, what later ones read."""
    later = program.ops[program.ops.index(ops[-1]) + 1 :]
    read = {part.index for op in later for part in _operands(op) if isinstance(part, Tensor)}
    return {index: tensor for index, tensor in tensors.items() if index in read}


def _operands(op: Op) -> Iterator[object]:
    for field in fields(op):
        value = getattr(op, field.name)
        yield from value if isinstance(value, tuple) else (value,)
