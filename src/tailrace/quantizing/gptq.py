"""GPTQ (arXiv 2210.17323): input by input, later weights make up for what rounding earlier ones cost the output.

With H = X^T X of the inputs X, damped, and H = R R^T for an upper triangular R, the cost of deviations d = w - q of a
row is |d R|^2. Its part j, sum over i <= j of d_i R_ij, depends on the inputs up to j alone, so each weight is rounded
where it cancels what those before it left. That is what the paper does with the inverse of H, without an inverse.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tailrace.ops.packed import GROUP, PackedTensor
from tailrace.ops.reference_math import Array
from tailrace.quantizing.calibration import Layer
from tailrace.quantizing.forward import product
from tailrace.quantizing.grid import Grid, Levels, below_each_other, checked, packed, round_rows
from tailrace.quantizing.rounding import nearest
from tailrace.quantizing.source import Made
from tailrace.weights.stored import FileTensor

__all__ = ["Gptq", "factor", "fed_back"]

_DAMPING = 0.01  # of the mean square of the inputs
_MIN_ROWS = 32  # fewer say too little of what a matrix is given
_MIN_CHUNK_ROWS = 128


class Gptq:
    """Quantises layers so. `num_unfed` counts matrices that the text hardly reached: they are rounded to nearest."""

    def __init__(self) -> None:
        self.num_unfed = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        if not self.num_unfed:
            return ()
        return (
            f"{self.num_unfed:,} matrices were given fewer than {_MIN_ROWS} rows of the text, or none but zeros: they "
            "are rounded to nearest; a longer text would reach more experts",
        )

    def quantize(self, layer: Layer) -> dict[str, FileTensor]:
        factors: dict[int, Array | None] = {}  # by inputs: several matrices are given the same
        return {
            name: self._rounded(layer, name, target, factors)
            for name, target in layer.targets.items()
            if isinstance(target, Grid)
        }

    def _rounded(self, layer: Layer, name: str, grid: Grid, factors: dict[int, Array | None]) -> Made:
        tensor, place = layer.source.tensors[name], layer.source.places[name]
        if place.is_table:
            return nearest(tensor, grid)
        matrix = tensor.as_matrix()
        height, parts = matrix.shape[0] // place.count, []
        for number in range(place.count):
            upper = _factor_of(layer.inputs.get((place.weight, place.first + number)), factors)
            rows = number * height, (number + 1) * height
            parts.append(self._matrix(matrix, rows, upper, grid))
        return Made(tensor.shape, below_each_other(parts), tensor.where)

    def _matrix(self, whole: FileTensor, rows: tuple[int, int], upper: Array | None, grid: Grid) -> PackedTensor:
        values = whole.rows(*rows)
        if upper is not None:
            return fed_back(values, upper, grid, whole.where)
        self.num_unfed += 1
        return round_rows(lambda begin, end: values[begin:end], values.shape, grid, whole.where)


def _factor_of(inputs: Array | None, factors: dict[int, Array | None]) -> Array | None:
    if inputs is None:
        return None
    if id(inputs) not in factors:
        factors[id(inputs)] = factor(inputs)
    return factors[id(inputs)]


def factor(inputs: Array) -> Array | None:
    """R [in, in] of inputs [rows, in]; None where they are too few, or nothing but zeros."""
    if len(inputs) < _MIN_ROWS:
        return None
    hessian = product(inputs.T, inputs.T)
    diagonal = np.einsum("ii->i", hessian)
    diagonal += np.float32(_DAMPING) * diagonal.mean()
    try:
        # Of the lower factor of the matrix turned round, the turned form is the upper one of the matrix.
        return np.ascontiguousarray(np.linalg.cholesky(hessian[::-1, ::-1])[::-1, ::-1])
    except np.linalg.LinAlgError:
        return None


def fed_back(values: Array, upper: Array, grid: Grid, where: str) -> PackedTensor:
    """Round the matrix `values` [out, in], each group of inputs to levels for what it has become by then."""
    threads = os.cpu_count() or 1
    step = max(_MIN_CHUNK_ROWS, -(-len(values) // threads))
    parts = [values[begin : begin + step] for begin in range(0, len(values), step)]
    with ThreadPoolExecutor(threads) as pool:
        return below_each_other(list(pool.map(lambda part: _fed_back(part, upper, grid, where), parts)))


def _fed_back(values: Array, upper: Array, grid: Grid, where: str) -> PackedTensor:
    deviations, codes = np.empty_like(values), np.empty_like(values)
    found: list[Levels] = []
    for begin in range(0, values.shape[1], GROUP):
        inside = slice(begin, begin + GROUP)
        owed, triangle = deviations[:, :begin] @ upper[:begin, inside], upper[inside, inside]
        with np.errstate(all="ignore"):  # what is not finite is refused, by name
            levels = checked(grid, values[:, inside] + owed @ np.linalg.inv(triangle), where)
        codes[:, inside], deviations[:, inside] = _group(values[:, inside], owed, triangle, levels, grid)
        found.append(levels)
    both = Levels(*(np.stack([getattr(levels, part) for levels in found], axis=1) for part in ("scales", "offsets")))
    return packed(codes.reshape(len(values), -1, GROUP), both, grid)


def _group(values: Array, owed: Array, triangle: Array, levels: Levels, grid: Grid) -> tuple[Array, Array]:
    """Codes of one group [out, 32], and how far they are from its values."""
    codes, deviations = np.empty_like(values), np.empty_like(values)
    for place, row in enumerate(triangle):
        wanted = values[:, place] + owed[:, place] / row[place]
        codes[:, place] = levels.codes(wanted[:, None], grid)[:, 0]
        deviations[:, place] = values[:, place] - levels.values(codes[:, place, None])[:, 0]
        owed[:, place + 1 :] += deviations[:, place, None] * row[place + 1 :]
    return codes, deviations
