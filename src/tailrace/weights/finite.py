"""Whether all values of a tensor are finite: looked at as integers, a few rows at a time, with nothing made of them.

A float's bits without its sign grow with its magnitude, NaN beyond infinity. As signed integers the largest is the
largest positive float, as unsigned ones that of the negative: two maxima, at the speed of memory.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from tailrace.ops.packed import PackedTensor

__all__ = ["is_finite"]

_INFINITY = {"f32": 0x7F80_0000, "f16": 0x7C00, "bf16": 0x7F80}
_LARGE = 0x7B80_0000  # 2 ** 120: a scale from which on it, times a code, with an offset, may not be finite in float32
_PIECE_VALUES = 1 << 18  # which the second maximum finds in the cache
_ALONE_VALUES = 1 << 23  # of so many rows are loaded at once, by threads that there are already
_MAX_THREADS = 16


def is_finite(tensor: PackedTensor) -> bool:
    """Whether every value that the tensor stands for is a number."""
    if tensor.format in _INFINITY:
        return _all_below(tensor.values, _INFINITY[tensor.format])
    parts = (part for part in (tensor.scales, tensor.offsets) if part is not None)
    return all(_all_below(part, _INFINITY["f16"] if part.itemsize == 2 else _LARGE) for part in parts)


def _all_below(values: NDArray[Any], limit: int) -> bool:
    """Whether all floats are nearer to zero than the one whose bits are `limit`."""
    width = values.dtype.itemsize
    signed, sign = values.view(f"<i{width}"), 1 << (8 * width - 1)

    def is_below(begin: int) -> bool:
        piece = signed[begin : begin + step]
        return bool(piece.max() < limit and piece.view(f"<u{width}").max() < sign | limit)

    step = max(1, _PIECE_VALUES * len(values) // values.size) if values.size else 1
    begins = range(0, len(values) if values.size else 0, step)
    if values.size <= _ALONE_VALUES:
        return all(map(is_below, begins))
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1, len(begins))) as pool:
        return all(pool.map(is_below, begins))
