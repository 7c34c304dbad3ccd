"""Stored rows narrowed to q8 and q4, or widened to float32, by native code.

What comes out is what packed.py and the decoders of the formats say, to the bit; who gets None does as they say.
"""

from functools import cache
from math import isfinite
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.packed import PackedTensor
from tailrace.ops.raw import RawMatrix

__all__ = ["is_native", "narrow", "widen"]


def is_native() -> bool:
    """Whether the native module is built."""
    return _conversion() is not None


def narrow(raw: RawMatrix, packed: PackedTensor) -> tuple[float, float] | None:
    """Fill `packed`, q8 or q4 with scales in float16, from as many rows; the squares of what was lost, and of all.

    None where there is no native code, and where a value is not finite or too large for a scale: whoever then narrows
    the same rows finds out which.
    """
    conversion = _conversion()
    if conversion is None:
        return None
    lost, total = conversion.narrow(raw, packed)
    return (lost, total) if isfinite(lost) and isfinite(total) else None


def widen(raw: RawMatrix) -> NDArray[np.float32] | None:
    """The values [rows, columns]. None where there is no native code."""
    conversion = _conversion()
    if conversion is None:
        return None
    values: NDArray[np.float32] = conversion.widen(raw)
    return values


@cache
def _conversion() -> ModuleType | None:
    try:
        from tailrace.ops.cpu import conversion  # noqa: PLC0415  (there are those who have no compiler)
    except (ImportError, AttributeError):  # not built, or of older sources
        return None
    return conversion
