"""The codes of a matrix as stored, and the numbers that they stand for before anything scales them."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.weights.quantized.bit_stream import unpack
from tailrace.weights.quantized.e4m3 import E4M3_LARGEST, decode_e4m3, has_nan
from tailrace.weights.safetensors import SafetensorsTensor

__all__ = ["Bytes", "Codes", "Float4s", "Float8s", "PackedIntegers"]

Span = tuple[int, int]

# Twice the value of each code of an e2m1 float (1 sign, 2 of exponent, 1 of mantissa): what they have in common is 1/2.
_TWICE_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


class Codes(Protocol):
    """A matrix of numbers."""

    @property
    def stored(self) -> SafetensorsTensor: ...

    @property
    def word(self) -> str:
        """What such codes are called: INT4."""
        ...

    @property
    def span(self) -> Span | None:
        """The least and the largest number, where all are integers."""
        ...

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        ...

    def of_rows(self, begin: int, end: int) -> NDArray[Any]:
        """[rows, columns], int8 or float32. Raises CheckpointError where a code is no number."""
        ...


@dataclass(frozen=True, slots=True)
class Float8s:
    """A byte each, e4m3."""

    stored: SafetensorsTensor
    word = "F8_E4M3"
    span = None
    largest = E4M3_LARGEST

    def of_rows(self, begin: int, end: int) -> NDArray[np.float32]:
        codes = self.stored.bits()[begin:end]
        if has_nan(codes):
            raise CheckpointError(
                f"{self.stored.where} holds values that are not numbers: the file is damaged; fetch it again"
            )
        return decode_e4m3(codes)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Integers of at most 8 bits, a byte each."""

    stored: SafetensorsTensor
    word = "INT8"
    span = (-128, 127)
    largest = 128.0

    def of_rows(self, begin: int, end: int) -> NDArray[np.int8]:
        return self.stored.bits()[begin:end]


@dataclass(frozen=True, slots=True)
class PackedIntegers:
    """Integers without gaps in words of 32 bits, [rows, words], shifted so that none is negative."""

    stored: SafetensorsTensor
    bits: int
    columns: int

    @property
    def word(self) -> str:
        return f"INT{self.bits}"

    @property
    def span(self) -> Span:
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def largest(self) -> float:
        return 2.0 ** (self.bits - 1)

    def of_rows(self, begin: int, end: int) -> NDArray[np.int8]:
        stream = self.stored.bits()[begin:end].view(np.uint8)
        shifted = unpack(stream, self.bits, self.columns) - np.uint8(1 << (self.bits - 1))
        return shifted.view(np.int8)


@dataclass(frozen=True, slots=True)
class Float4s:
    """Two e2m1 a byte, [rows, columns / 2], the first in the low half. Their numbers here are twice their values."""

    stored: SafetensorsTensor
    word: str
    span = (-12, 12)
    largest = 12.0

    def of_rows(self, begin: int, end: int) -> NDArray[np.int8]:
        codes = self.stored.bits()[begin:end]
        return _TWICE_E2M1[unpack(codes, 4, 2 * codes.shape[1])]
