"""Matrices as files hold them, drawn at random."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from tailrace.ops.raw import BLOCK_FORMS, RawMatrix, ScaleGrid

__all__ = ["FORMS", "Matrix", "draw"]

FORMS = ("bf16", "f16", "f32", "e4m3", "Q8_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K", "Q6_K")
_COLS = 4096
_DRAWN_ROWS = 256  # and repeated: what is drawn costs more than what is measured
_FP8_BLOCK = 128
_HALF_BYTES = {"Q8_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q5_K": (0, 2), "Q6_K": (208,)}


@dataclass(frozen=True, slots=True)
class Matrix:
    raw: RawMatrix

    @property
    def num_values(self) -> int:
        return self.raw.num_rows * self.raw.num_cols

    @property
    def bytes_per_value(self) -> float:
        num_bytes: int = self.raw.data.shape[1]
        return num_bytes / self.raw.num_cols

    def rows(self, share: float) -> "Matrix":
        return Matrix(self.raw.rows(0, max(1, int(self.raw.num_rows * share))))


def draw(form: str, num_values: int) -> Matrix:
    rng = np.random.default_rng(0)
    num_rows = max(1, num_values // _COLS)
    make = _FLOATS.get(form)
    if make is not None:
        floats = (0.02 * rng.standard_normal((_DRAWN_ROWS, _COLS))).astype(np.float32)
        return Matrix(RawMatrix(form, _COLS, _repeated(make(floats).view(np.uint8), num_rows)))  # type: ignore[arg-type]  # of FORMS
    if form == "e4m3":
        codes = rng.integers(0, 0x7F, (_DRAWN_ROWS, _COLS)).astype(np.uint8)
        scales = np.full((-(-num_rows // _FP8_BLOCK), _COLS // _FP8_BLOCK), 1e-4, np.float32)
        return Matrix(RawMatrix("e4m3", _COLS, _repeated(codes, num_rows), ScaleGrid(scales, _FP8_BLOCK, _FP8_BLOCK)))
    return Matrix(RawMatrix(BLOCK_FORMS[form], _COLS, _repeated(_blocks(rng, form), num_rows)))


def _blocks(rng: np.random.Generator, form: str) -> NDArray[np.uint8]:
    """Random bytes, but for scales of a sensible size."""
    num_values, num_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[form]]
    blocks = rng.integers(0, 256, (_DRAWN_ROWS, _COLS // num_values, num_bytes)).astype(np.uint8)
    for begin in _HALF_BYTES[form]:
        blocks[..., begin : begin + 2] = np.frombuffer(np.float16(1e-3).tobytes(), np.uint8)
    return blocks.reshape(_DRAWN_ROWS, -1)


def _repeated(rows: NDArray[np.uint8], num_rows: int) -> NDArray[np.uint8]:
    return np.resize(rows, (num_rows, rows.shape[1]))


def _bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    return (values.view(np.uint32) >> 16).astype(np.uint16)


_FLOATS: dict[str, Callable[[NDArray[np.float32]], NDArray[np.generic]]] = {
    "f32": lambda values: values,
    "f16": lambda values: values.astype(np.float16),
    "bf16": _bf16,
}
