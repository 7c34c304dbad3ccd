"""Floats of 8 bits (e4m3fn) by their definition: what every code means, and the nearest code of a number."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LARGEST", "NOT_NUMBERS", "VALUES", "decode", "encode"]

LARGEST = 448.0
NOT_NUMBERS = (0x7F, 0xFF)


def value_of(code: int) -> float:
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    magnitude = (mantissa / 8) * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -magnitude if sign else magnitude


VALUES = np.array([value_of(code) for code in range(0x7F)])  # of the codes without a sign, ascending


def decode(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    magnitudes: NDArray[np.float64] = VALUES[codes & 0x7F]
    return np.where(codes & 0x80, -magnitudes, magnitudes)


def encode(numbers: ArrayLike) -> NDArray[np.uint8]:
    """The nearest code, the even one of two as near; beyond the largest, the largest."""
    return np.array([nearest(float(number)) for number in np.ravel(numbers)], np.uint8).reshape(np.shape(numbers))


def nearest(number: float) -> int:
    distances = np.abs(VALUES - min(abs(number), LARGEST))
    candidates = np.flatnonzero(distances == distances.min())
    (code,) = candidates if len(candidates) == 1 else candidates[candidates % 2 == 0]
    return int(code) | (0x80 if np.signbit(number) else 0)
