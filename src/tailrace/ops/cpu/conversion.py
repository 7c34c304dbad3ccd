"""Weights converted on their way in by the native module, on the best instruction set there is: all give the same bits.

A call takes one thread, and no lock: callers run several.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tailrace.ops import _native
from tailrace.ops.packed import PackedTensor
from tailrace.ops.raw import RawMatrix

__all__ = ["narrow", "widen"]


def narrow(raw: RawMatrix, packed: PackedTensor, isa: str = "") -> tuple[float, float]:
    """Fill `packed`, q8 or q4 with scales in float16, with rows of as many.

    The sums of squares of what is lost and of the values; one of them is not finite when a value is not, or when it is
    too large for its scale.
    """
    assert packed.scales is not None
    scales = packed.scales.view(np.uint16)
    if packed.offsets is None:
        return _converter(isa).to_q8(_rows(raw), packed.values, scales)
    return _converter(isa).to_q4(_rows(raw), packed.values, scales, packed.offsets.view(np.uint16))


def widen(raw: RawMatrix, isa: str = "") -> NDArray[np.float32]:
    """The values, [rows, columns]."""
    values = np.empty((raw.num_rows, raw.num_cols), np.float32)
    _converter(isa).to_f32(_rows(raw), values)
    return values


@cache
def _converter(isa: str) -> _native.Converter:
    return _native.Converter(isa)


def _rows(raw: RawMatrix) -> _native.StoredRows:
    grid = raw.grid
    if grid is None:
        return _native.StoredRows(raw.form, raw.data, None, 1, 1, 0)
    return _native.StoredRows(raw.form, raw.data, grid.scales, grid.block_rows, grid.block_cols, grid.first_row)
