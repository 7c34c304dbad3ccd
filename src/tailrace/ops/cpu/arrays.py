"""Weights' arrays in the form that the native module takes them in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError

__all__ = ["exportable", "scales_as"]


def scales_as(dtype: type[np.floating[Any]], scales: NDArray[np.floating[Any]] | None) -> NDArray[np.floating[Any]]:
    """Scales, or offsets, of this type. Raises CheckpointError where it does not hold one of them."""
    if scales is None:
        raise CheckpointError("a quantised tensor has no scales")
    if scales.dtype == dtype:
        return exportable(scales)
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(scales, dtype)
    if dtype == np.float16 and not np.array_equal(converted.astype(scales.dtype), scales):
        raise CheckpointError("a quantised tensor has scales beyond float16")
    return converted


def exportable(values: NDArray[Any]) -> NDArray[Any]:
    """The view itself where its steps are whole items, as array exchange wants it; else a copy."""
    is_regular = all(stride % values.itemsize == 0 for stride in values.strides) and values.flags.aligned
    return values if is_regular else values.copy()
