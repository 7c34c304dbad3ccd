"""The ways of narrowing a matrix."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray

from benchmarks.loading.matrices import Matrix
from tailrace.ops.packed import quantize_int4, quantize_int8
from tailrace.ops.raw import RawMatrix
from tailrace.weights.quantize import Mode, quantize_rows
from tailrace.weights.quantized.e4m3 import decode_e4m3

__all__ = ["Contestant", "contestants"]

_CHUNK_VALUES = 1 << 16
_NUMPY_SHARE = 1 / 16  # of the rows: it takes so much longer


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    convert: Callable[[Matrix, Mode], object]
    share: float = 1.0  # of the rows, that it is given


def contestants() -> Sequence[Contestant]:
    return (
        Contestant("native", lambda matrix, mode: _native(matrix, mode, 1)),
        Contestant("2 threads", lambda matrix, mode: _native(matrix, mode, 2)),
        Contestant("numpy", _numpy, _NUMPY_SHARE),
    )


def _native(matrix: Matrix, mode: Mode, num_threads: int) -> object:
    raw = matrix.raw
    shape = (raw.num_rows, raw.num_cols)
    return quantize_rows(
        lambda begin, end: _values(raw.rows(begin, end)), shape, mode, "a matrix", [raw], num_threads=num_threads
    )


def _numpy(matrix: Matrix, mode: Mode) -> None:
    """A few rows at a time, as large as stays near; what is lost is not measured."""
    raw, step = matrix.raw, max(1, _CHUNK_VALUES // matrix.raw.num_cols)
    quantize = quantize_int8 if mode == "int8" else quantize_int4
    for begin in range(0, raw.num_rows, step):
        quantize(_values(raw.rows(begin, begin + step)))


def _values(raw: RawMatrix) -> NDArray[np.float32]:
    match raw.form:
        case "f32":
            return raw.data.view(np.float32)
        case "f16":
            return raw.data.view(np.float16).astype(np.float32)
        case "bf16":
            return (raw.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        case "e4m3":
            return decode_e4m3(raw.data) * _spread(raw)
        case form:
            return np.asarray(dequantize(raw.data, GGMLQuantizationType[form]), np.float32)


def _spread(raw: RawMatrix) -> NDArray[np.float32]:
    """The scale of each value."""
    assert raw.grid is not None
    grid, rows = raw.grid, (raw.grid.first_row + np.arange(raw.num_rows)) // raw.grid.block_rows
    return np.repeat(grid.scales[rows], grid.block_cols, axis=1)[:, : raw.num_cols]
