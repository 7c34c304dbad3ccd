"""Quantising a matrix on its way in: a few rows at a time, so that the float32 values never exist as a whole."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import GROUP, PackedTensor, quantize_int4, quantize_int8

__all__ = ["Mode", "quantize_rows"]

_CHUNK_VALUES = 1 << 16  # with what is computed from them, they stay in the second-level cache
_MEASURED_CHUNKS = 64
_MAX_THREADS = 16

Mode = Literal["int8", "int4"]
ReadRows = Callable[[int, int], NDArray[np.float32]]


def quantize_rows(read: ReadRows, shape: tuple[int, ...], mode: Mode, where: str) -> tuple[PackedTensor, float]:
    """Quantise the matrix whose rows [begin, end) are read(begin, end); also its relative RMS error.

    The error of a large matrix is that of every so many rows: to look at all would take as long as to convert them.
    `read` is called from several threads. Raises CheckpointError naming `where` when a value is not finite or too
    large for a float16 scale.
    """
    num_rows, num_inputs = shape
    packed = _empty(num_rows, num_inputs, mode)
    step = max(1, _CHUNK_VALUES // num_inputs)
    every = max(1, num_rows // step // _MEASURED_CHUNKS)

    def convert(begin: int) -> tuple[float, float]:
        rows = slice(begin, min(begin + step, num_rows))
        with np.errstate(all="ignore"):  # what is not finite is refused, by name
            values = read(rows.start, rows.stop)
            part = _quantize(values, mode, where)
        _store(packed, part, rows)
        if begin // step % every:
            return 0.0, 0.0
        return _square_sum(part.dequantize() - values), _square_sum(values)

    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        lost, total = map(sum, zip(*pool.map(convert, range(0, num_rows, step)), strict=True))
    return packed, sqrt(lost / total) if total else 0.0


def _empty(num_rows: int, num_inputs: int, mode: Mode) -> PackedTensor:
    groups = (num_rows, num_inputs // GROUP)
    scales = np.empty(groups, np.float16)
    if mode == "int8":
        return PackedTensor((num_rows, num_inputs), "q8", np.empty((*groups, GROUP), np.int8), scales)
    codes = np.empty((*groups, GROUP // 2), np.uint8)
    return PackedTensor((num_rows, num_inputs), "q4", codes, scales, np.empty(groups, np.float16))


def _quantize(values: NDArray[np.float32], mode: Mode, where: str) -> PackedTensor:
    quantize = quantize_int8 if mode == "int8" else quantize_int4
    if not np.isfinite(values).all():
        raise CheckpointError(f"{where} holds values that are not finite: the file is damaged; fetch it again")
    part = quantize(values)
    if not all(np.isfinite(scales).all() for scales in (part.scales, part.offsets) if scales is not None):
        raise CheckpointError(f"{where} holds values too large for {mode}")
    return part


def _store(packed: PackedTensor, part: PackedTensor, rows: slice) -> None:
    # The scales were rounded to float16 when they were chosen: keeping them as such loses nothing.
    packed.values[rows] = part.values
    for whole, piece in ((packed.scales, part.scales), (packed.offsets, part.offsets)):
        if whole is not None and piece is not None:
            whole[rows] = piece


def _square_sum(values: NDArray[np.float32]) -> float:
    # Not a dot product: the BLAS would start threads of its own under ours.
    return float(np.square(values).sum(dtype=np.float64))
