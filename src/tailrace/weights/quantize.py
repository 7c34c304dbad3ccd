"""Quantising a matrix on its way in: a few rows at a time, so that the float32 values never exist as a whole."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.narrow import is_native, narrow
from tailrace.ops.packed import GROUP, PackedTensor, quantize_int4, quantize_int8
from tailrace.ops.raw import RawMatrix, RawParts

__all__ = ["Mode", "quantize_rows"]

_CHUNK_VALUES = 1 << 16  # with what is computed from them, they stay in the second-level cache
_RAW_CHUNK_VALUES = 1 << 20  # of which nothing is kept: enough work for a call
_MAX_THREADS = 16

Mode = Literal["int8", "int4"]
ReadRows = Callable[[int, int], NDArray[np.float32]]
_Chunk = tuple[slice, RawMatrix | None]  # rows, and how they lie in a file


def quantize_rows(
    read: ReadRows,
    shape: tuple[int, ...],
    mode: Mode,
    where: str,
    parts: RawParts | None = None,
    *,
    num_threads: int | None = None,
) -> tuple[PackedTensor, float]:
    """Quantise the matrix whose rows [begin, end) are read(begin, end); also its relative RMS error.

    Where `parts` say how the same rows lie in a file, native code reads them there. `read` is called from all threads,
    of which a large matrix has one for each core unless told otherwise. Raises CheckpointError naming `where` when a
    value is not finite or too large for a float16 scale.
    """
    num_rows, num_inputs = shape
    packed = _empty(num_rows, num_inputs, mode)
    if parts is not None and is_native():
        chunks = list(_raw_chunks(parts, max(1, _RAW_CHUNK_VALUES // num_inputs)))
    else:
        chunks = list(_chunks(num_rows, max(1, _CHUNK_VALUES // num_inputs)))
    squares = _in_threads(partial(_convert, read, packed, where), chunks, num_threads)
    lost, total = map(sum, zip(*squares, strict=True))
    return packed, sqrt(lost / total) if total else 0.0


def _empty(num_rows: int, num_inputs: int, mode: Mode) -> PackedTensor:
    groups = (num_rows, num_inputs // GROUP)
    scales = np.empty(groups, np.float16)
    if mode == "int8":
        return PackedTensor((num_rows, num_inputs), "q8", np.empty((*groups, GROUP), np.int8), scales)
    codes = np.empty((*groups, GROUP // 2), np.uint8)
    return PackedTensor((num_rows, num_inputs), "q4", codes, scales, np.empty(groups, np.float16))


def _chunks(num_rows: int, step: int) -> Iterator[_Chunk]:
    for begin in range(0, num_rows, step):
        yield slice(begin, min(begin + step, num_rows)), None


def _raw_chunks(parts: RawParts, step: int) -> Iterator[_Chunk]:
    top = 0
    for part in parts:
        for rows, _ in _chunks(part.num_rows, step):
            yield slice(top + rows.start, top + rows.stop), part.rows(rows.start, rows.stop)
        top += part.num_rows


def _in_threads(
    convert: Callable[[_Chunk], tuple[float, float]], chunks: list[_Chunk], num_threads: int | None
) -> list[tuple[float, float]]:
    # To start threads for less than a few chunks takes longer than they do.
    wanted = min(num_threads or min(_MAX_THREADS, os.cpu_count() or 1), len(chunks) // 2)
    if wanted < 2:
        return list(map(convert, chunks))
    with ThreadPoolExecutor(wanted) as pool:
        return list(pool.map(convert, chunks))


def _convert(read: ReadRows, packed: PackedTensor, where: str, chunk: _Chunk) -> tuple[float, float]:
    """Fill some rows; the squares of what is lost and of what there was."""
    rows, raw = chunk
    room = packed.cut(rows.start, rows.stop)
    squares = None if raw is None else narrow(raw, room)
    if squares is None:
        with np.errstate(all="ignore"):  # what is not finite is refused, by name
            values = np.ascontiguousarray(read(rows.start, rows.stop))
            squares = narrow(RawMatrix.of_floats("f32", values), room) or _narrow(values, room, where)
    return squares


def _narrow(values: NDArray[np.float32], room: PackedTensor, where: str) -> tuple[float, float]:
    """As native code does, with what is wrong in words."""
    if not np.isfinite(values).all():
        raise CheckpointError(f"{where} holds values that are not finite: the file is damaged; fetch it again")
    part = quantize_int8(values) if room.format == "q8" else quantize_int4(values)
    if not all(np.isfinite(scales).all() for scales in (part.scales, part.offsets) if scales is not None):
        raise CheckpointError(f"{where} holds values too large for {'int8' if room.format == 'q8' else 'int4'}")
    # The scales were rounded to float16 when they were chosen: keeping them as such loses nothing.
    room.values[:] = part.values
    for into, piece in ((room.scales, part.scales), (room.offsets, part.offsets)):
        if into is not None and piece is not None:
            into[:] = piece
    return _square_sum(part.dequantize() - values), _square_sum(values)


def _square_sum(values: NDArray[np.float32]) -> float:
    # Not a dot product: the BLAS would start threads of its own under ours.
    return float(np.square(values).sum(dtype=np.float64))
