"""The formulas that the reference's ops are made of, in numpy and float32. They know arrays, not programs."""

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.program import RopeSpec

__all__ = ["Array", "attention", "layer_norm", "matmul", "rms_norm", "sigmoid", "softmax", "swiglu", "turn"]

Array = NDArray[np.float32]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis."""
    mean_square: Array = np.square(x).mean(axis=-1, keepdims=True)
    normed: Array = x / np.sqrt(mean_square + np.float32(eps))
    return normed * weight


def layer_norm(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, over the last axis."""
    centred: Array = x - x.mean(axis=-1, keepdims=True)
    return rms_norm(centred, weight, eps) + bias


def matmul(x: Array, weight: Array) -> Array:
    """x [rows, in] times weight [out, in] transposed, row by row: a row's bits do not depend on its neighbours."""
    out = np.empty((len(x), len(weight)), np.float32)
    for row, result in zip(x, out, strict=True):
        np.matmul(weight, row, out=result)
    return out


def swiglu(x: Array) -> Array:
    """silu(gate) * up for x = [gate | up], over the last axis."""
    gate, up = np.split(x, 2, axis=-1)
    return gate * sigmoid(gate) * up


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x) without overflow: only e^-|x| is taken."""
    small: Array = np.exp(-np.abs(x))
    numerator: Array = np.where(x >= 0, np.float32(1), small)
    return numerator / (small + 1)


def turn(heads: Array, positions: NDArray[np.int64], rope: RopeSpec) -> Array:
    """Turn the pairs of heads [T, heads, D] by position * inv_freq. Angles are float64: they are large."""
    angles = positions[:, None, None] * np.array(rope.inv_freq)
    cos, sin = (np.float32(rope.scale) * part.astype(np.float32) for part in (np.cos(angles), np.sin(angles)))
    num_pairs = len(rope.inv_freq)
    if rope.interleaved:
        first, second = slice(0, 2 * num_pairs, 2), slice(1, 2 * num_pairs, 2)
    else:
        first, second = slice(0, num_pairs), slice(num_pairs, 2 * num_pairs)
    out = heads.copy()
    out[..., first] = heads[..., first] * cos - heads[..., second] * sin
    out[..., second] = heads[..., second] * cos + heads[..., first] * sin
    return out


def attention(q: Array, keys: Array, values: Array, scale: float) -> Array:
    """softmax(q k^T * scale) v of one token, [H, Dv]; head h reads KV head h // (H / G).

    q [H, D], keys [positions, G, D], values [positions, G, Dv].
    """
    num_kv_heads = keys.shape[1]
    grouped = q.reshape(num_kv_heads, -1, q.shape[-1])
    scores = grouped @ keys.transpose(1, 2, 0) * np.float32(scale)
    return (softmax(scores) @ values.transpose(1, 0, 2)).reshape(len(q), -1)


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    weights: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total: Array = weights.sum(axis=-1, keepdims=True)
    return weights / total
