"""GGUF tensors as packed ones: views into the mapped file where the layouts agree, else repacked, exactly if possible.

Block types that none of our formats holds are expanded to float32, a few rows at a time, by native code or the `gguf`
package.
"""

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UnsupportedModel
from tailrace.ops.narrow import widen
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat
from tailrace.ops.raw import BLOCK_FORMS, BlockForm, FloatForm, RawMatrix, RawParts
from tailrace.weights import grid_blocks, small_blocks, super_blocks
from tailrace.weights.block_codes import Blocks, Codes
from tailrace.weights.gguf import TensorInfo

__all__ = ["GgufTensor"]

_FLOATS: dict[str, tuple[FloatForm, str]] = {"F32": ("f32", "<f4"), "F16": ("f16", "<f2"), "BF16": ("bf16", "<u2")}
_NEVER_WEIGHTS = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K", "Q1_0"})

_Read = Callable[[Blocks], Codes]
# Their bytes are ours already.
_VIEWED: Mapping[str, tuple[WeightFormat, _Read]] = {
    "Q8_0": ("q8", small_blocks.q8_0),
    "Q4_0": ("q4", small_blocks.q4_0),
    "Q4_1": ("q4", small_blocks.q4_1),
}
_REPACKED: Mapping[str, tuple[WeightFormat, _Read]] = {
    "Q5_0": ("q8", small_blocks.q5_0),
    "IQ4_NL": ("q8", small_blocks.iq4_nl),
    "MXFP4": ("q8", small_blocks.mxfp4),
    "Q3_K": ("q8", super_blocks.q3_k),
    "Q4_K": ("q4", super_blocks.q4_k),
    "IQ4_XS": ("q8", super_blocks.iq4_xs),
    "TQ1_0": ("q4", super_blocks.tq1_0),
    "TQ2_0": ("q4", super_blocks.tq2_0),
    "IQ1_S": ("q8", grid_blocks.iq1_s),
    "IQ2_XXS": ("q8", grid_blocks.iq2_xxs),
    "IQ3_XXS": ("q8", grid_blocks.iq3_xxs),
    "IQ3_S": ("q4", grid_blocks.iq3_s),
}
_EXACT = {**_VIEWED, **_REPACKED}

_PIECE_VALUES = 1 << 16  # repacked at once by a thread
_MAX_THREADS = 16


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of a GGUF file."""

    info: TensorInfo

    @property
    def shape(self) -> tuple[int, ...]:
        return self.info.shape

    @property
    def stored_format(self) -> str:
        return self.info.type.name

    @property
    def where(self) -> str:
        return f"{self.info.file.path}: tensor {self.info.name!r}"

    @property
    def format(self) -> WeightFormat | None:
        """The packed format that holds the stored values exactly; None: there is none but float32."""
        if self.stored_format in _FLOATS:
            return _FLOATS[self.stored_format][0]
        exact = _EXACT.get(self.stored_format)
        return exact[0] if exact and len(self.shape) == 2 else None

    @property
    def has_half_scales(self) -> bool:
        """Whether `packed` has scales and offsets that float16 holds: as a row of it shows."""
        if self.stored_format not in _REPACKED:
            return True
        codes = self._read(self._blocks()[:1])
        return all(part.dtype == np.float16 for part in (codes.scales, codes.offsets) if part is not None)

    def check(self) -> None:
        """Raises UnsupportedModel for block types that no weight has."""
        if self.stored_format in _NEVER_WEIGHTS:
            raise UnsupportedModel(f"{self.where} has type {self.stored_format}, which is not a type of weights")

    def as_matrix(self) -> Self:
        """The matrices of a tensor [count, rows, columns] one below the other."""
        rows = math.prod(self.shape[:-1])
        return replace(self, info=replace(self.info, shape=(rows, self.shape[-1])))

    def cut(self, begin: int, end: int) -> Self:
        """Rows [begin, end) of a matrix."""
        row_bytes = self.info.num_bytes // self.shape[0]
        shape = (end - begin, *self.shape[1:])
        return replace(self, info=replace(self.info, shape=shape, begin=self.info.begin + begin * row_bytes))

    def packed(self) -> PackedTensor:
        """The tensor without loss; float32 where no other format holds it."""
        if self.stored_format in _FLOATS:
            name, dtype = _FLOATS[self.stored_format]
            return PackedTensor(self.shape, name, self._bytes().view(dtype).reshape(self.shape))
        if self.format is None:
            values = _expanded(self._blocks(), self.shape[-1], self.stored_format)
            return PackedTensor(self.shape, "f32", values.reshape(self.shape))
        if self.stored_format in _VIEWED:
            return _packed(self._read(self._blocks()), self.shape[1])
        return _in_pieces(self._blocks(), self._read, self.shape[1])

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Float32 values of rows [begin, end) of a matrix."""
        if self.stored_format in _FLOATS:
            return self.packed().rows(np.arange(begin, end))
        blocks = self._blocks()[begin:end]
        if self.format is None:
            return _expanded(blocks, self.shape[1], self.stored_format)
        return _packed(self._read(blocks), self.shape[1]).dequantize()

    def raw(self) -> RawParts | None:
        if self.stored_format in _FLOATS:
            return [RawMatrix.of_floats(_FLOATS[self.stored_format][0], self.packed().values)]
        form = BLOCK_FORMS.get(self.stored_format)
        return form and [_raw(self._blocks(), self.shape[-1], form)]

    def read_ahead(self) -> None:
        self.info.file.read_ahead(self.info.span)

    def release(self) -> None:
        self.info.file.release(self.info.span)

    def _bytes(self) -> NDArray[Any]:
        return self.info.file.array(np.uint8, self.info.num_bytes, self.info.begin)

    def _blocks(self) -> NDArray[np.uint8]:
        """[rows, blocks of a row, bytes of a block], a view."""
        rows, num_bytes = int(np.prod(self.shape[:-1])), self.info.type.num_bytes
        blocks: NDArray[np.uint8] = self._bytes().reshape(rows, self.shape[-1] // self.info.type.num_values, num_bytes)
        return blocks

    @property
    def _read(self) -> _Read:
        return _EXACT[self.stored_format][1]


def _raw(blocks: Blocks, num_cols: int, form: BlockForm) -> RawMatrix:
    return RawMatrix(form, num_cols, blocks.reshape(len(blocks), -1))


def _expanded(blocks: Blocks, num_cols: int, name: str) -> NDArray[np.float32]:
    form = BLOCK_FORMS.get(name)
    values = form and widen(_raw(blocks, num_cols, form))
    return grid_blocks.expanded(blocks, name) if values is None else values


def _packed(codes: Codes, num_cols: int) -> PackedTensor:
    """Rows as they were read, as a matrix; views stay views."""
    num_rows, groups = len(codes.values), num_cols // GROUP
    return PackedTensor(
        (num_rows, num_cols),
        codes.format,
        codes.values.reshape(num_rows, groups, -1),
        codes.scales.reshape(num_rows, groups),
        None if codes.offsets is None else codes.offsets.reshape(num_rows, groups),
    )


def _in_pieces(blocks: Blocks, read: _Read, num_cols: int) -> PackedTensor:
    """All rows repacked, a few at a time and on all cores, so that what lies between never exists as a whole."""
    num_rows, step = len(blocks), max(1, _PIECE_VALUES // num_cols)
    if num_rows <= step:
        return _packed(read(blocks), num_cols)
    whole = _empty_like(_packed(read(blocks[:1]), num_cols), num_rows)

    def repack(begin: int) -> None:
        rows = slice(begin, begin + step)
        with np.errstate(all="ignore"):  # what is not finite is refused, by name
            part = _packed(read(blocks[rows]), num_cols)
        for into, piece in zip(_arrays(whole), _arrays(part), strict=True):
            into[rows] = piece

    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        for _ in pool.map(repack, range(0, num_rows, step)):
            pass
    return whole


def _empty_like(row: PackedTensor, num_rows: int) -> PackedTensor:
    values, *scales = (np.empty((num_rows, *array.shape[1:]), array.dtype) for array in _arrays(row))
    return PackedTensor((num_rows, row.shape[1]), row.format, values, *scales)


def _arrays(tensor: PackedTensor) -> list[NDArray[Any]]:
    return [array for array in (tensor.values, tensor.scales, tensor.offsets) if array is not None]
