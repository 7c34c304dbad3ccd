"""Floats of 8 bits: e4m3 (4 bits of exponent, 3 of mantissa, no infinity), and e8m0, which are powers of two."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["E4M3_LARGEST", "decode_e4m3", "decode_e8m0", "has_nan"]

E4M3_LARGEST = 448.0
_NAN = 0x7F
_EXPONENT_BIAS, _MANTISSA_STEPS = 7, 8
_E8M0_BIAS = 127


def decode_e4m3(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The values, of the same shape."""
    flat = codes.reshape(-1)
    even = np.append(flat, flat[:1]) if flat.size % 2 else np.ascontiguousarray(flat)
    return _pairs().take(even.view("<u2"), axis=0).reshape(-1)[: flat.size].reshape(codes.shape)


def decode_e8m0(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """2 to the power of code - 127; 255 is no number."""
    powers = np.ldexp(np.float32(1), np.minimum(codes, 254).astype(np.int32) - _E8M0_BIAS)
    return np.where(codes == 255, np.float32(np.nan), powers)


def has_nan(codes: NDArray[np.uint8]) -> bool:
    return bool(((codes & _NAN) == _NAN).any())


def _values() -> NDArray[np.float32]:
    """Of all codes. Beneath the smallest exponent the mantissa counts alone."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, (code & 7) / _MANTISSA_STEPS
    magnitude = np.ldexp((exponent > 0) + mantissa, np.maximum(exponent, 1) - _EXPONENT_BIAS)
    magnitude[code & _NAN == _NAN] = np.nan
    values: NDArray[np.float32] = np.where(code & 0x80, -magnitude, magnitude).astype(np.float32)
    return values


@cache
def _pairs() -> NDArray[np.float32]:
    """[65536, 2]: looking two values up at once takes a quarter of the time."""
    code = np.arange(1 << 16)
    return np.stack([_values()[code & 255], _values()[code >> 8]], axis=1)
