"""Causal attention over whole sequences, in chunks of queries. What it computes is the reference's."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.reference_latent import index, selected
from tailrace.ops.reference_math import Array, softmax

__all__ = ["causal", "selections"]

_CHUNK_QUERIES = 128


def causal(
    q: Array, keys: Array, values: Array, scale: float, window: int | None = None, *, selection: Array | None = None
) -> Array:
    """softmax(q k^T * scale) v over the positions each token sees, [tokens, H * Dv].

    q [N, L, H, D], keys [N, L, G, D], values [N, L, G, Dv]: head h reads KV head h // (H / G). `window`: only the last
    so many positions, its own included. `selection` [N, L, top_k]: only the positions in it, -1 is none.
    """
    num_sequences, length, num_heads = q.shape[:3]
    out = np.empty((num_sequences, length, num_heads * values.shape[-1]), np.float32)

    def attend(place: tuple[int, int, int]) -> None:
        n, begin, end = place
        seen = _visible(begin, end, window)
        if selection is not None:
            seen = seen & _chosen(selection[n, begin:end], end)
        out[n, begin:end] = _attend(q[n, begin:end], keys[n, :end], values[n, :end], seen, scale)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(attend, _chunks(num_sequences, length)))
    return out.reshape(num_sequences * length, -1)


def _chunks(num_sequences: int, length: int) -> Iterator[tuple[int, int, int]]:
    for n in range(num_sequences):
        for begin in range(0, length, _CHUNK_QUERIES):
            yield n, begin, min(begin + _CHUNK_QUERIES, length)


def _visible(begin: int, end: int, window: int | None) -> NDArray[np.bool_]:
    """Which positions up to `end` queries [begin, end) see, [queries, end]."""
    distance = np.arange(begin, end)[:, None] - np.arange(end)
    seen: NDArray[np.bool_] = (distance >= 0) & (distance < (window or end))
    return seen


def _chosen(selection: Array, end: int) -> NDArray[np.bool_]:
    """Rows of positions [queries, top_k], as a mask [queries, end]."""
    mask = np.zeros((len(selection), end + 1), np.bool_)
    np.put_along_axis(mask, selection.astype(np.int64), values=True, axis=1)  # -1 is the column that nobody reads
    return mask[:, :end]


def _attend(q: Array, keys: Array, values: Array, seen: NDArray[np.bool_], scale: float) -> Array:
    num_queries, _, head_dim = q.shape
    num_kv_heads = keys.shape[1]
    grouped = q.reshape(num_queries, num_kv_heads, -1, head_dim).transpose(1, 2, 0, 3)  # [G, H / G, queries, D]
    scores = grouped @ keys.transpose(1, 2, 0)[:, None] * np.float32(scale)
    weights = softmax(np.where(seen, scores, np.float32(-np.inf)))
    attended = weights @ values.transpose(1, 0, 2)[:, None]
    return attended.transpose(2, 0, 1, 3).reshape(num_queries, -1)


def selections(q: Array, keys: Array, head_weights: Array, top_k: int) -> Array:
    """The positions each token may attend to, [tokens, top_k].

    q [N, L, H, D], keys [N, L, D], head_weights [N, L, H].
    """
    num_sequences, length = keys.shape[:2]
    out = np.empty((num_sequences, length, top_k), np.float32)
    for n in range(num_sequences):
        for t in range(length):
            out[n, t] = selected(index(q[n, t], keys[n, : t + 1], head_weights[n, t]), top_k)
    return out.reshape(-1, top_k)
