"""Weights' arrays in the form that the native module takes them in: no wider, and no more regular, than need be."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError

__all__ = ["compact", "exportable"]


def compact(*parts: NDArray[np.floating[Any]] | None) -> tuple[NDArray[np.floating[Any]], ...]:
    """All in float16 if that keeps every value, else all in float32: half the bytes to read in each step."""
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        raise CheckpointError("a quantised tensor has no scales")
    halves = [_as_half(part) for part in present]
    kept = [half for half in halves if half is not None]
    if len(kept) == len(present):
        return tuple(exportable(half) for half in kept)
    return tuple(np.ascontiguousarray(part, np.float32) for part in present)


def _as_half(values: NDArray[np.floating[Any]]) -> NDArray[np.float16] | None:
    if values.dtype == np.float16:
        return values
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    return half if np.array_equal(half.astype(values.dtype), values) else None


def exportable(values: NDArray[Any]) -> NDArray[Any]:
    """The view itself where its steps are whole items, as array exchange wants it; else a copy."""
    is_regular = all(stride % values.itemsize == 0 for stride in values.strides) and values.flags.aligned
    return values if is_regular else values.copy()
