"""What the codes of a matrix are multiplied with, and the codes that stand for zero: one for each block of values.

Both are read for a range of rows at a time, [rows, block columns], and checked then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.weights.quantized.bit_stream import unpack
from tailrace.weights.quantized.e4m3 import decode_e4m3, decode_e8m0
from tailrace.weights.safetensors import SafetensorsTensor

__all__ = ["FLOATS", "POWERS", "Grid", "PackedZeros", "Scales", "Zeros"]

FLOATS = ("F32", "F16", "BF16")
POWERS = ("F8_E8M0", "U8")
_FEW_BITS = frozenset({"F16", "BF16", "F8_E4M3", *POWERS})
_LARGEST, _LARGEST_HALF = float(np.finfo(np.float32).max), float(np.finfo(np.float16).max)


def _from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _from_float(bits: NDArray[Any]) -> NDArray[np.float32]:
    return bits.astype(np.float32)


_DECODERS: Mapping[str, Any] = {
    "F32": _from_float,
    "F16": _from_float,
    "BF16": _from_bf16,
    "F8_E4M3": decode_e4m3,
    "F8_E8M0": decode_e8m0,
    "U8": decode_e8m0,
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of a matrix [rows, columns]: `height` x `width` values each, the last of a row or column ragged."""

    height: int
    width: int
    rows: int  # of blocks
    columns: int

    @classmethod
    def of(cls, shape: tuple[int, int], height: int, width: int) -> "Grid":
        return cls(height, width, -(-shape[0] // height), -(-shape[1] // width))

    def band(self, begin: int, end: int) -> slice:
        """The rows of blocks that hold rows [begin, end)."""
        return slice(begin // self.height, -(-end // self.height))

    def to_rows(self, band: NDArray[Any], begin: int, end: int) -> NDArray[Any]:
        """A row for each of the rows [begin, end), of their band."""
        return band if self.height == 1 else band[np.arange(begin, end) // self.height - begin // self.height]


@dataclass(frozen=True, slots=True)
class Scales:
    """One multiplier a block. With a `divisor`, which is one number for all, a multiplier is what is stored over it."""

    stored: SafetensorsTensor
    grid: Grid
    largest: float  # magnitude of what is multiplied
    divisor: SafetensorsTensor | None = None

    @property
    def has_few_bits(self) -> bool:
        """Whether its products with small integers, and their sums, are exact in float32."""
        return self.divisor is None and self.stored.stored_format in _FEW_BITS

    @property
    def _limit(self) -> float:
        """What is made of half floats is held in such, too."""
        return _LARGEST_HALF if self.are_halves else _LARGEST

    @property
    def are_halves(self) -> bool:
        """Whether float16 holds them all."""
        return self.divisor is None and self.stored.stored_format == "F16"

    def of_rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """As `of_blocks`, [rows, block columns]."""
        return self.grid.to_rows(self.of_blocks(begin, end), begin, end)

    def of_blocks(self, begin: int, end: int) -> NDArray[np.float32]:
        """Of the blocks with rows [begin, end). Raises CheckpointError for what would make values not finite."""
        grid = self.grid
        bits = self.stored.bits().reshape(grid.rows, grid.columns)[grid.band(begin, end)]
        band: NDArray[np.float32] = _DECODERS[self.stored.stored_format](bits)
        if self.divisor is not None:
            with np.errstate(all="ignore"):  # what comes of a divisor that is none is refused
                band = band / self.divisor.bits().reshape(())
        if not (np.abs(band) <= self._limit / self.largest).all():
            raise CheckpointError(
                f"{self.stored.where} holds scales that are not finite, or too large: the file is damaged; "
                "fetch it again"
            )
        return band

    def release(self) -> None:
        self.stored.release()


@dataclass(frozen=True, slots=True)
class Zeros:
    """The code that stands for zero, a block."""

    stored: SafetensorsTensor
    grid: Grid

    def of_rows(self, begin: int, end: int) -> NDArray[np.int16]:
        grid = self.grid
        bits = self.stored.bits().reshape(grid.rows, grid.columns)[grid.band(begin, end)]
        return grid.to_rows(bits.astype(np.int16), begin, end)

    def release(self) -> None:
        self.stored.release()


@dataclass(frozen=True, slots=True)
class PackedZeros:
    """The same packed down the rows: stored are words [rows * bits / 32, block columns]."""

    stored: SafetensorsTensor
    bits: int

    def of_rows(self, begin: int, end: int) -> NDArray[np.int16]:
        first = begin // 32 * 32
        words = self.stored.bits()[first * self.bits // 32 : -(-end * self.bits // 32)]
        stream = np.ascontiguousarray(words.T).view(np.uint8)
        zeros = unpack(stream, self.bits, end - first)[:, begin - first :]
        return zeros.T.astype(np.int16) - np.int16(1 << (self.bits - 1))

    def release(self) -> None:
        self.stored.release()
