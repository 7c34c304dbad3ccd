"""AWQ (arXiv 2306.00978): inputs that are large, of which little may be lost, are scaled up before weights are rounded.

What gives a layer its inputs is scaled down as much (`folding`), so that the model stays what it was. Scales are a
power of the inputs' mean magnitudes: of a few powers the one that brings the outputs nearest to what they were.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tailrace.ops.packed import GROUP
from tailrace.ops.reference_math import Array
from tailrace.quantizing.calibration import Layer
from tailrace.quantizing.folding import Fold, folds
from tailrace.quantizing.grid import Grid
from tailrace.quantizing.plan import KEPT, Target
from tailrace.quantizing.rounding import nearest
from tailrace.quantizing.scaling import Scaling
from tailrace.weights.stored import FileTensor

__all__ = ["Awq", "Taker", "best_scales"]

_POWERS = np.linspace(0, 1, 11)
_MAX_ROWS = 256  # of inputs, for which outputs are compared
_MIN_ROWS = 32
_SMALLEST = 1e-4  # of the largest magnitude
_CHUNK_VALUES = 1 << 16  # with what is computed from them, they stay in the second-level cache


@dataclass(frozen=True, slots=True)
class Taker:
    """A matrix [out, in] that will be rounded, and some of the rows that it is given; each stands for `weight` rows."""

    values: Array
    grid: Grid
    inputs: Array
    weight: float

    def cost(self, scales: Array) -> float:
        """How far rounding the scaled matrix takes its outputs from what they were."""
        step = max(1, _CHUNK_VALUES // self.values.shape[1])
        parts = (self.values[begin : begin + step] for begin in range(0, len(self.values), step))
        return self.weight * sum(self._cost(part, scales) for part in parts)

    def _cost(self, rows: Array, scales: Array) -> float:
        groups = (rows * scales).reshape(len(rows), -1, GROUP)
        levels = self.grid.levels(groups)
        rounded = levels.values(levels.codes(groups, self.grid)).reshape(rows.shape) / scales
        return float(np.square(self.inputs @ (rounded - rows).T).sum(dtype=np.float64))


class Awq:
    """Quantises layers so. `num_unfed` counts the folds that the text hardly reached, which are not scaled."""

    def __init__(self) -> None:
        self.num_unfed = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        if not self.num_unfed:
            return ()
        return (
            f"{self.num_unfed:,} inputs of matrices had fewer than {_MIN_ROWS} rows of the text: they are not scaled; "
            "a longer text would reach more experts",
        )

    def quantize(self, layer: Layer) -> dict[str, FileTensor]:
        scaled = self.chosen(layer).scaled(layer.source, list(layer.targets))
        made: dict[str, FileTensor] = dict(scaled)
        for name, target in layer.targets.items():
            if isinstance(target, Grid):
                made[name] = nearest(scaled.get(name, layer.source.tensors[name]), target)
        return made

    def chosen(self, layer: Layer) -> Scaling:
        """The scales of all places of the layer that may have some."""
        scaling, targets = Scaling(), _by_weight(layer)
        for fold in folds(layer.ops):
            if any(targets.get(weight, KEPT) == KEPT for weight in fold.weights):
                continue
            takers = list(_takers(layer, fold, targets))
            if takers:
                scaling.add(fold, best_scales(takers, fold))
            else:
                self.num_unfed += 1
        return scaling


def _by_weight(layer: Layer) -> dict[str, Target]:
    found = {layer.source.places[name].weight: target for name, target in layer.targets.items()}
    joined = {name.removesuffix("v_b") + "k_b": target for name, target in found.items() if name.endswith(".v_b")}
    return joined | found  # kv_b, in one piece, stands for both


def _takers(layer: Layer, fold: Fold, targets: Mapping[str, Target]) -> Iterator[Taker]:
    read, shapes = layer.source.reader(), layer.source.program.weights
    for weight, matrix in fold.multiplied:
        grid, inputs = targets[weight], layer.inputs.get((weight, matrix))
        if not isinstance(grid, Grid) or inputs is None or len(inputs) < _MIN_ROWS:
            continue
        height = shapes[weight].shape[0] // layer.num_matrices(weight)
        some = inputs[:: -(-len(inputs) // _MAX_ROWS)]
        yield Taker(read(weight, matrix * height, (matrix + 1) * height), grid, some, len(inputs) / len(some))


def best_scales(takers: Sequence[Taker], fold: Fold) -> Array:
    """The scales [size] of the numbers that the takers are given."""
    magnitudes = _magnitudes(takers, fold)
    candidates = [_scales(magnitudes, power) for power in _POWERS]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        costs = list(pool.map(lambda scales: sum(taker.cost(scales[fold.columns]) for taker in takers), candidates))
    return candidates[int(np.argmin(costs))]


def _magnitudes(takers: Sequence[Taker], fold: Fold) -> Array:
    """The mean magnitude of each number, over all rows and all columns that take it."""
    num_rows = sum(taker.weight * len(taker.inputs) for taker in takers)
    sums = sum(taker.weight * np.abs(taker.inputs).sum(axis=0, dtype=np.float64) for taker in takers)
    of_columns = np.bincount(fold.columns, weights=sums / num_rows, minlength=fold.size)
    means: Array = (of_columns / np.bincount(fold.columns, minlength=fold.size)).astype(np.float32)
    return means


def _scales(magnitudes: Array, power: float) -> Array:
    scales = np.maximum(magnitudes, _SMALLEST * magnitudes.max() or 1) ** power
    centred: Array = (scales / np.sqrt(scales.max() * scales.min())).astype(np.float32)
    return centred
