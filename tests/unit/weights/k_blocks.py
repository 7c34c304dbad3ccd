"""Blocks that the gguf package reads and cannot write: rounded the simplest way, laid out as their formulas say."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType as GgmlType
from gguf.quants import quantize
from numpy.typing import NDArray

__all__ = ["WRITTEN_HERE", "blocks_of"]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Integers = NDArray[np.signedinteger[Any]]
LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])


def blocks_of(kind: GgmlType, values: Floats) -> NDArray[Any]:
    """The bytes of rows [..., columns], [..., bytes of a row]; of types of floats, those."""
    if kind not in WRITTEN_HERE:
        return np.asarray(quantize(values, kind))
    size, write = WRITTEN_HERE[kind]
    blocks = write(values.reshape(-1, size).astype(np.float32))
    return blocks.reshape(*values.shape[:-1], -1)


def _half(values: Floats) -> tuple[Bytes, Floats]:
    """Each as the bytes of a float16, [blocks, 2], and as what those stand for, [blocks, 1]."""
    half = values.astype("<f2")
    return half[:, None].view(np.uint8), half.astype(np.float32)[:, None]


def _rounded(values: Floats, steps: Floats, low: int, high: int) -> Integers:
    return np.rint(values / np.where(steps == 0, 1, steps)).clip(low, high).astype(np.int64)


def _bytes(*columns: Integers) -> Bytes:
    """Columns of numbers that fit a byte, side by side."""
    return np.stack(columns, axis=1).astype(np.uint8)


def _together(*parts: Integers) -> Integers:
    """Bits of one number."""
    return np.asarray(np.bitwise_or.reduce(np.stack(parts), axis=0))


def _with_minima(x: Floats, top: int, scale_top: int) -> tuple[Bytes, Bytes, Integers, Integers, Integers]:
    """d, dmin, and of groups [blocks, groups, values]: scale codes, minimum codes, codes; x = d sc q - dmin m."""
    minima = np.maximum(-x.min(axis=2), 0)
    steps = (x.max(axis=2) + minima) / top
    (d_bytes, d), (dmin_bytes, dmin) = _half(steps.max(axis=1) / scale_top), _half(minima.max(axis=1) / scale_top)
    scales, offsets = _rounded(steps, d, 0, scale_top), _rounded(minima, dmin, 0, scale_top)
    codes = _rounded(x + (dmin * offsets)[..., None], (d * scales)[..., None], 0, top)
    return d_bytes, dmin_bytes, scales, offsets, codes


def _symmetric(x: Floats, low: int, high: int, scale_top: int) -> tuple[Bytes, Integers, Integers]:
    """d, and of groups [blocks, groups, values]: scale codes and codes; x = d sc q."""
    steps = np.abs(x).max(axis=2) / high
    d_bytes, d = _half(steps.max(axis=1) / scale_top)
    scales = _rounded(steps, d, 0, scale_top)
    return d_bytes, scales, _rounded(x, (d * scales)[..., None], low, high)


def _twelve(scales: Integers, minima: Integers) -> Bytes:
    """Eight 6-bit pairs of Q4_K and Q5_K."""
    first = [scales[:, j] | scales[:, j + 4] >> 4 << 6 for j in range(4)]
    second = [minima[:, j] | minima[:, j + 4] >> 4 << 6 for j in range(4)]
    third = [scales[:, j + 4] & 15 | (minima[:, j + 4] & 15) << 4 for j in range(4)]
    return _bytes(*first, *second, *third)


def _q4_k(x: Floats) -> Bytes:
    d, dmin, scales, minima, q = _with_minima(x.reshape(-1, 8, 32), 15, 63)
    data = [q[:, 2 * chunk, i] | q[:, 2 * chunk + 1, i] << 4 for chunk in range(4) for i in range(32)]
    return np.concatenate([d, dmin, _twelve(scales, minima), _bytes(*data)], axis=1)


def _q5_k(x: Floats) -> Bytes:
    d, dmin, scales, minima, q = _with_minima(x.reshape(-1, 8, 32), 31, 63)
    low = q & 15
    data = [low[:, 2 * chunk, i] | low[:, 2 * chunk + 1, i] << 4 for chunk in range(4) for i in range(32)]
    fifth = [_together(*(q[:, group, i] >> 4 << group for group in range(8))) for i in range(32)]
    return np.concatenate([d, dmin, _twelve(scales, minima), _bytes(*fifth), _bytes(*data)], axis=1)


def _q6_k(x: Floats) -> Bytes:
    d, scales, codes = _symmetric(x.reshape(-1, 16, 16), -32, 31, 127)
    q = codes.reshape(-1, 256) + 32
    low, high = [], []
    for half in (0, 128):
        for at in (0, 32):
            low += [q[:, half + at + i] & 15 | (q[:, half + at + 64 + i] & 15) << 4 for i in range(32)]
        high += [_together(*(q[:, half + 32 * k + i] >> 4 << 2 * k for k in range(4))) for i in range(32)]
    return np.concatenate([_bytes(*low), _bytes(*high), scales.astype(np.uint8), d], axis=1)


def _quarters(q: Integers) -> Bytes:
    """The two low bits of 256 values, four a byte, 32 apart."""
    places = [128 * half + i for half in range(2) for i in range(32)]
    return _bytes(*(_together(*((q[:, at + 32 * k] & 3) << 2 * k for k in range(4))) for at in places))


def _q2_k(x: Floats) -> Bytes:
    d, dmin, scales, minima, q = _with_minima(x.reshape(-1, 16, 16), 3, 15)
    return np.concatenate([(scales | minima << 4).astype(np.uint8), _quarters(q.reshape(-1, 256)), d, dmin], axis=1)


def _q3_k(x: Floats) -> Bytes:
    d, scales, codes = _symmetric(x.reshape(-1, 16, 16), -4, 3, 31)
    q, stored = codes.reshape(-1, 256) + 4, scales + 32
    third = _bytes(*(_together(*(q[:, 32 * k + i] >> 2 << k for k in range(8))) for i in range(32)))
    low = [stored[:, j] & 15 | (stored[:, j + 8] & 15) << 4 for j in range(8)]
    high = [_together(*(stored[:, j + 4 * k] >> 4 << 2 * k for k in range(4))) for j in range(4)]
    return np.concatenate([third, _quarters(q), _bytes(*low, *high), d], axis=1)


def _nearest_levels(x: Floats, steps: Floats) -> Integers:
    scaled = x / np.where(steps == 0, 1, steps)
    return np.asarray(np.abs(scaled[..., None] - LEVELS).argmin(axis=-1))


def _iq4_nl(x: Floats) -> Bytes:
    d_bytes, d = _half(np.abs(x).max(axis=1) / 113)
    q = _nearest_levels(x, d)
    return np.concatenate([d_bytes, _bytes(*(q[:, i] | q[:, 16 + i] << 4 for i in range(16)))], axis=1)


def _iq4_xs(x: Floats) -> Bytes:
    groups = x.reshape(-1, 8, 32)
    steps = np.abs(groups).max(axis=2) / 113
    d_bytes, d = _half(steps.max(axis=1) / 31)
    scales = _rounded(steps, d, 0, 31)
    q, stored = _nearest_levels(groups, (d * scales)[..., None]), scales + 32
    high = [_together(*(stored[:, 4 * byte + k] >> 4 << 2 * k for k in range(4))) for byte in range(2)]
    low = [stored[:, 2 * byte] & 15 | (stored[:, 2 * byte + 1] & 15) << 4 for byte in range(4)]
    data = [q[:, group, i] | q[:, group, 16 + i] << 4 for group in range(8) for i in range(16)]
    return np.concatenate([d_bytes, _bytes(*high, *low, *data)], axis=1)


WRITTEN_HERE: Mapping[GgmlType, tuple[int, Callable[[Floats], Bytes]]] = {
    GgmlType.Q2_K: (256, _q2_k),
    GgmlType.Q3_K: (256, _q3_k),
    GgmlType.Q4_K: (256, _q4_k),
    GgmlType.Q5_K: (256, _q5_k),
    GgmlType.Q6_K: (256, _q6_k),
    GgmlType.IQ4_NL: (32, _iq4_nl),
    GgmlType.IQ4_XS: (256, _iq4_xs),
}
