"""What latent attention computes, in both its forms, and which positions an index selects. One row at a time.

The reference runs the expanded form, the one of the paper; the absorbed one stands beside it for comparison.
"""

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.program import LatentAttention, SelectPositions
from tailrace.ops.reference_math import Array, attention, layer_norm, matmul, rms_norm, turn
from tailrace.ops.reference_scope import Scope

__all__ = ["absorbed", "expanded", "index", "latent_attention", "select_positions", "selected"]


def latent_attention(op: LatentAttention, scope: Scope) -> Array:
    """Keep each token's latent, then attend to those of its sequence, [T, H * dv]."""
    rows, keys = scope.rows, scope.caches[op.cache].keys
    keys.store(rows, _kept(op, scope)[:, None])
    queries = _turned_queries(op, scope)
    k_b, v_b = scope.matrices(op.k_b, op.num_heads), scope.matrices(op.v_b, op.num_heads)
    out = np.empty((len(queries), op.out.cols), np.float32)
    for t, position in enumerate(rows.positions):
        visible = keys.up_to(rows.tables[t], position)[:, 0]
        if op.selection is not None:
            visible = visible[_chosen(scope[op.selection][t])]
        out[t] = expanded(queries[t], visible, k_b, v_b, op.scale).reshape(-1)
    return out


def _kept(op: LatentAttention, scope: Scope) -> Array:
    """[c ; k] of each token, [T, r + dr]: the normed latent, and the turned key that all heads share."""
    c, k = np.split(scope[op.latent], [op.latent_dim], axis=1)
    turned = turn(k[:, None], scope.rows.positions, op.rope)[:, 0]
    return np.concatenate([rms_norm(c, scope[op.norm], op.eps), turned], axis=1)


def _turned_queries(op: LatentAttention, scope: Scope) -> Array:
    """[T, H, dn + dr] with the last dr turned."""
    q = scope[op.q]
    plain, rope = np.split(q.reshape(len(q), op.num_heads, -1), [op.plain_dim], axis=2)
    return np.concatenate([plain, turn(rope, scope.rows.positions, op.rope)], axis=2)


def _chosen(selection: Array) -> NDArray[np.intp]:
    """The positions in a row of a selection, [top_k] with -1 behind the last."""
    return selection[selection >= 0].astype(np.intp)


def expanded(q: Array, keys: Array, k_b: Array, v_b: Array, scale: float) -> Array:
    """Every head gets keys and values of its own out of the latents, then attends as ever, [H, dv].

    q [H, dn + dr], keys [positions, r + dr], k_b [H, r, dn], v_b [H, dv, r].
    """
    latent_dim = k_b.shape[1]
    c, turned = np.split(keys, [latent_dim], axis=1)
    plain = c @ k_b  # [H, positions, dn]
    shared = np.broadcast_to(turned, (len(q), *turned.shape))
    of_heads = np.concatenate([plain, shared], axis=2)
    values = c @ v_b.transpose(0, 2, 1)  # [H, positions, dv]
    return attention(q, of_heads.transpose(1, 0, 2), values.transpose(1, 0, 2), scale)


def absorbed(q: Array, keys: Array, k_b: Array, v_b: Array, scale: float) -> Array:
    """Queries go to the latents instead: one key and value for all heads. Shapes as in `expanded`."""
    latent_dim, plain_dim = k_b.shape[1:]
    plain, turned = np.split(q, [plain_dim], axis=1)
    of_latents = np.concatenate([(k_b @ plain[:, :, None])[:, :, 0], turned], axis=1)  # [H, r + dr]
    attended = attention(of_latents, keys[:, None], keys[:, None, :latent_dim], scale)  # [H, r]
    out: Array = (v_b @ attended[:, :, None])[:, :, 0]
    return out


def select_positions(op: SelectPositions, scope: Scope) -> Array:
    """Keep each token's key, then select of its sequence's positions those with the largest index, [T, top_k]."""
    rows, keys, q = scope.rows, scope.caches[op.cache].keys, scope[op.q]
    normed = layer_norm(scope[op.k], scope[op.norm], scope[op.norm_bias], op.eps)
    keys.store(rows, turn(normed[:, None], rows.positions, op.rope))
    queries = turn(q.reshape(len(q), op.num_heads, -1), rows.positions, op.rope)
    out = np.empty((len(q), op.top_k), np.float32)
    for t, position in enumerate(rows.positions):
        visible = keys.up_to(rows.tables[t], position)[:, 0]
        out[t] = selected(index(queries[t], visible, scope[op.head_weights][t]), op.top_k)
    return out


def index(q: Array, keys: Array, head_weights: Array) -> Array:
    """sum over heads of head_weights[h] * relu(q_h . key_s), [positions]; q [H, D], keys [positions, D]."""
    products = np.maximum(q @ keys.T, np.float32(0))
    return matmul(products.T, head_weights[None])[:, 0]


def selected(index: Array, top_k: int) -> Array:
    """The positions of the `top_k` largest numbers, ascending, the earlier among equals; -1 where there are fewer."""
    best = np.argsort(-index, kind="stable")[:top_k]
    out = np.full(top_k, -1, np.float32)
    out[: len(best)] = np.sort(best)
    return out
