"""GGUF blocks as packed tensors: views into the mapped file where the layouts agree, exact repacking for Q4_K.

All other block types are expanded to float32 by the `gguf` package, a few rows at a time.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UnsupportedModel
from tailrace.ops.packed import GROUP, PackedTensor, WeightFormat
from tailrace.weights.gguf import TensorInfo

__all__ = ["GgufTensor"]

_FLOATS: dict[str, tuple[WeightFormat, str]] = {"F32": ("f32", "<f4"), "F16": ("f16", "<f2"), "BF16": ("bf16", "<u2")}
_PACKED: dict[str, WeightFormat] = {"Q8_0": "q8", "Q4_0": "q4", "Q4_1": "q4", "Q4_K": "q4"}
_NEVER_WEIGHTS = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K", "Q1_0"})


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
        return _PACKED.get(self.stored_format) if len(self.shape) == 2 else None

    def check(self) -> None:
        """Raises UnsupportedModel for block types that no weight has."""
        if self.stored_format in _NEVER_WEIGHTS:
            raise UnsupportedModel(f"{self.where} has type {self.stored_format}, which is not a type of weights")

    def as_matrix(self) -> Self:
        """The matrices of a tensor [count, rows, columns] one below the other."""
        rows = math.prod(self.shape[:-1])
        return replace(self, info=replace(self.info, shape=(rows, self.shape[-1])))

    def packed(self) -> PackedTensor:
        """The tensor without loss; float32 where no other format holds it."""
        if self.stored_format in _FLOATS:
            name, dtype = _FLOATS[self.stored_format]
            return PackedTensor(self.shape, name, self._bytes().view(dtype).reshape(self.shape))
        if self.format is None:
            return PackedTensor(self.shape, "f32", self._expanded(slice(None)).reshape(self.shape))
        match self.stored_format:
            case "Q8_0":
                return _q8_0(self.shape, self._blocks())
            case "Q4_0":
                return _q4_0(self.shape, self._blocks())
            case "Q4_1":
                return _q4_1(self.shape, self._blocks())
            case _:
                return _q4_k(self.shape, self._blocks())

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Float32 values of rows [begin, end) of a matrix."""
        if self.format is None:
            return self._expanded(slice(begin, end))
        return self.packed().rows(np.arange(begin, end))

    def release(self) -> None:
        self.info.file.release(self.info.span)

    def _bytes(self) -> NDArray[Any]:
        return self.info.file.array(np.uint8, self.info.num_bytes, self.info.begin)

    def _blocks(self) -> NDArray[np.uint8]:
        """[rows, blocks of a row, bytes of a block], a view."""
        rows, num_bytes = int(np.prod(self.shape[:-1])), self.info.type.num_bytes
        blocks: NDArray[np.uint8] = self._bytes().reshape(rows, self.shape[-1] // self.info.type.num_values, num_bytes)
        return blocks

    def _expanded(self, rows: slice) -> NDArray[np.float32]:
        # Imported here: it takes a sixth of a second, and the default model does without.
        from gguf import GGMLQuantizationType  # noqa: PLC0415
        from gguf.quants import dequantize  # noqa: PLC0415

        blocks = self._blocks()[rows]
        values = dequantize(blocks.reshape(len(blocks), -1), GGMLQuantizationType[self.stored_format])
        return np.asarray(values, np.float32)


def _half(blocks: NDArray[np.uint8], begin: int) -> NDArray[Any]:
    """The float16 at byte `begin` of each block, a view."""
    return blocks[..., begin : begin + 2].view("<f2")[..., 0]


def _q8_0(shape: tuple[int, ...], blocks: NDArray[np.uint8]) -> PackedTensor:
    return PackedTensor(shape, "q8", blocks[..., 2:].view(np.int8), _half(blocks, 0))


def _q4_0(shape: tuple[int, ...], blocks: NDArray[np.uint8]) -> PackedTensor:
    scales = _half(blocks, 0)
    return PackedTensor(shape, "q4", blocks[..., 2:], scales, scales.astype(np.float32) * np.float32(-8))


def _q4_1(shape: tuple[int, ...], blocks: NDArray[np.uint8]) -> PackedTensor:
    return PackedTensor(shape, "q4", blocks[..., 4:], _half(blocks, 0), _half(blocks, 2))


def _q4_k(shape: tuple[int, ...], blocks: NDArray[np.uint8]) -> PackedTensor:
    """Eight groups of 32 share two float16; with a float32 scale and offset each they are ours, exactly.

    bytes 0..3    d, dmin
    bytes 4..15   eight 6-bit scales and minima; of the last four, the upper two bits sit above the first four
    bytes 16..143 four chunks of 32 bytes: low nibbles are one group, high nibbles the next
    """
    head, rows = blocks[..., 4:16], shape[0]
    first, minima, last = head[..., 0:4], head[..., 4:8], head[..., 8:12]
    scale_codes = np.concatenate([first & 63, (last & 15) | ((first >> 6) << 4)], axis=-1)
    offset_codes = np.concatenate([minima & 63, (last >> 4) | ((minima >> 6) << 4)], axis=-1)
    scales = _half(blocks, 0).astype(np.float32)[..., None] * scale_codes
    offsets = _half(blocks, 2).astype(np.float32)[..., None] * -offset_codes.astype(np.float32)
    chunks = blocks[..., 16:].reshape(*blocks.shape[:2], 4, 2, 16)
    front, back = chunks[..., 0, :], chunks[..., 1, :]
    codes = np.stack([(front & 15) | (back << 4), (front >> 4) | (back & 0xF0)], axis=-2)
    groups = shape[1] // GROUP
    return PackedTensor(
        shape,
        "q4",
        codes.reshape(rows, groups, GROUP // 2),
        scales.reshape(rows, groups),
        offsets.reshape(rows, groups),
    )
