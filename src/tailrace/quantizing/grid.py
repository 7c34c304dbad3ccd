"""The grids that matrices are rounded to: 16 or 255 levels for each group of 32 inputs, as formats have them.

GGUF's Q8_0 and Q4_1 are what the loader's --quantize makes, bit for bit. The zero points of compressed-tensors are
integers, so that a group's grid holds zero itself: what is zero stays zero.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import GROUP, PackedTensor
from tailrace.ops.reference_math import Array

__all__ = ["INT4", "INT4_WITH_ZERO", "INT8", "Grid", "Levels", "below_each_other", "packed", "round_rows"]

_CHUNK_VALUES = 1 << 16  # with what is computed from them, they stay in the second-level cache
_MAX_THREADS = 16


@dataclass(frozen=True, slots=True)
class Levels:
    """A group's levels are scale * code + offset. Both [...], float32 that float16 holds, but for offsets to a zero."""

    scales: Array
    offsets: Array

    def codes(self, values: Array, grid: "Grid") -> Array:
        """The nearest codes of values [..., n], where the levels are [...]."""
        steps = (values - self.offsets[..., None]) / np.where(self.scales == 0, 1, self.scales)[..., None]
        return np.rint(steps).clip(grid.low, grid.high)

    def values(self, codes: Array) -> Array:
        """What codes [..., n] stand for."""
        values: Array = codes * self.scales[..., None] + self.offsets[..., None]
        return values


@dataclass(frozen=True, slots=True)
class Grid:
    """Codes from `low` to `high`, and how the levels of a group follow from its values."""

    bits: Literal[4, 8]
    low: int
    high: int
    has_integer_zero: bool = False  # the offset is a whole number of scales

    def levels(self, groups: Array) -> Levels:
        """Levels for groups [..., 32]: symmetric, or from smallest to largest, or as `_with_integer_zero` has it."""
        if self.bits == 8:
            scales = _half(np.abs(groups).max(axis=-1) / 127.0)
            return Levels(scales, np.zeros_like(scales))
        low, high = groups.min(axis=-1), groups.max(axis=-1)
        if not self.has_integer_zero:
            return Levels(_half((high - low) / 15.0), _half(low))
        return _with_integer_zero(low, high)


def _with_integer_zero(low: Array, high: Array) -> Levels:
    """Of the codes that may stand for zero the one with the finest levels that are nowhere further than half a step."""
    zeros = np.arange(16, dtype=np.float32)
    steps = np.maximum(-low[..., None] / (zeros + np.float32(0.5)), high[..., None] / (np.float32(15.5) - zeros))
    best = steps.argmin(axis=-1)
    scales = _half(np.take_along_axis(steps, best[..., None], axis=-1)[..., 0])
    return Levels(scales, -zeros[best] * scales)


INT8 = Grid(8, -127, 127)
INT4 = Grid(4, 0, 15)
INT4_WITH_ZERO = Grid(4, 0, 15, has_integer_zero=True)


def packed(codes: Array, levels: Levels, grid: Grid) -> PackedTensor:
    """The matrix of codes [out, in/32, 32] and levels [out, in/32]."""
    shape = codes.shape[0], codes.shape[1] * GROUP
    scales = levels.scales.astype(np.float16)
    if grid.bits == 8:
        return PackedTensor(shape, "q8", codes.astype(np.int8), scales)
    numbers = codes.astype(np.uint8)
    nibbles = numbers[..., :16] | (numbers[..., 16:] << 4)
    offsets = levels.offsets if grid.has_integer_zero else levels.offsets.astype(np.float16)
    return PackedTensor(shape, "q4", nibbles, scales, offsets)


def round_rows(read: Callable[[int, int], Array], shape: tuple[int, ...], grid: Grid, where: str) -> PackedTensor:
    """Round the matrix whose rows [begin, end) are read(begin, end), each value to the nearest level.

    `read` is called from several threads. Raises CheckpointError naming `where`, as `checked` does.
    """
    num_rows, num_inputs = shape
    step = max(1, _CHUNK_VALUES // num_inputs)

    def convert(begin: int) -> PackedTensor:
        with np.errstate(all="ignore"):  # what is not finite is refused, by name
            groups = read(begin, min(begin + step, num_rows)).reshape(-1, num_inputs // GROUP, GROUP)
            levels = checked(grid, groups, where)
        return packed(levels.codes(groups, grid), levels, grid)

    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        return below_each_other(list(pool.map(convert, range(0, num_rows, step))))


def checked(grid: Grid, groups: Array, where: str) -> Levels:
    """The levels of groups [..., 32].

    Raises CheckpointError for values that are not finite, or beyond the largest float16 scale.
    """
    if not np.isfinite(groups).all():
        raise CheckpointError(f"{where} holds values that are not finite: the file is damaged; fetch it again")
    levels = grid.levels(groups)
    if not (np.isfinite(levels.scales).all() and np.isfinite(levels.offsets).all()):
        raise CheckpointError(f"{where} holds values too large for int{grid.bits}")
    return levels


def below_each_other(parts: Sequence[PackedTensor]) -> PackedTensor:
    """Matrices of one width and format as one."""
    if len(parts) == 1:
        return parts[0]
    scales, offsets = ([getattr(part, name) for part in parts] for name in ("scales", "offsets"))
    return PackedTensor(
        (sum(part.shape[0] for part in parts), parts[0].shape[1]),
        parts[0].format,
        np.concatenate([part.values for part in parts]),
        np.concatenate(scales),
        None if offsets[0] is None else np.concatenate(offsets),
    )


def _half(values: NDArray[np.floating]) -> Array:
    """Rounded to what float16 holds: that is how scales are stored."""
    return values.astype(np.float16).astype(np.float32)
