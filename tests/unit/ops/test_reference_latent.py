"""Latent attention and the index of the reference against their definitions, written out with scalars."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops.program import KvCacheSpec, LatentAttention, RopeSpec, SelectPositions, Tensor, Weight
from tailrace.ops.reference_cache import Rows, caches_within
from tailrace.ops.reference_latent import absorbed, expanded, index, latent_attention, select_positions, selected
from tailrace.ops.reference_math import layer_norm, rms_norm, turn
from tailrace.ops.reference_scope import Scope
from tests.support.steps import Part, limits, step

Array = NDArray[np.float32]

LIMITS = limits(block_tokens=4)
POSITIONS = np.arange(6)

# Three heads of 5 plain and 4 turned values over latents of 6; values of 7.
ATTENTION = LatentAttention(
    q=Tensor(0, "tokens", 3 * 9),
    latent=Tensor(1, "tokens", 6 + 4),
    cache=0,
    num_heads=3,
    norm=Weight("norm", (6,)),
    eps=0.5,
    rope=RopeSpec((1.0, 0.3), scale=1.2, interleaved=True),
    k_b=Weight("k_b", (3 * 6, 5)),
    v_b=Weight("v_b", (3 * 7, 6)),
    scale=0.4,
    selection=None,
    out=Tensor(2, "tokens", 3 * 7),
)
# Two heads of 6 values, 4 of which turn; at most three positions are selected.
INDEX = SelectPositions(
    q=Tensor(0, "tokens", 2 * 6),
    k=Tensor(1, "tokens", 6),
    head_weights=Tensor(2, "tokens", 2),
    cache=0,
    norm=Weight("norm", (6,)),
    norm_bias=Weight("norm.bias", (6,)),
    eps=0.5,
    rope=RopeSpec((1.0, 0.3)),
    out=Tensor(3, "tokens", 3),
)


def random(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def scope(op: LatentAttention | SelectPositions, weights: Sequence[Weight], tensors: dict[int, Array]) -> Scope:
    """One sequence of six tokens at positions 0 to 5, and random weights."""
    width = op.latent.cols if isinstance(op, LatentAttention) else op.k.cols
    spec = KvCacheSpec(1, width, has_values=False)
    blocks = np.zeros((LIMITS.num_blocks, spec.num_values * LIMITS.block_tokens), np.float32)
    drawn = {weight.name: random(*weight.shape, seed=10 + number) for number, weight in enumerate(weights)}
    return Scope(
        drawn, caches_within(blocks, [spec], LIMITS.block_tokens), Rows.of(step(LIMITS, Part(2, 0, [0] * 6))), tensors
    )


def attending(op: LatentAttention, tensors: dict[int, Array]) -> Scope:
    return scope(op, (op.norm, op.k_b, op.v_b), tensors)


def written_out(at: Scope, t: int, head: int, visible: Sequence[int]) -> Array:
    """The output of one head at position t, term by term."""
    q, latent = at.tensors[0].reshape(6, 3, 9), at.tensors[1]
    c = rms_norm(latent[:, :6], at.weights["norm"], 0.5)
    k = turn(latent[:, None, 6:], POSITIONS, ATTENTION.rope)[:, 0]
    q_turned = turn(q[:, :, 5:], POSITIONS, ATTENTION.rope)
    k_b, v_b = at.weights["k_b"].reshape(3, 6, 5)[head], at.weights["v_b"].reshape(3, 7, 6)[head]

    scores = []
    for s in visible:
        plain = sum(q[t, head, i] * sum(k_b[j, i] * c[s, j] for j in range(6)) for i in range(5))
        turned = sum(q_turned[t, head, i] * k[s, i] for i in range(4))
        scores.append(0.4 * float(plain + turned))
    shares = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
    return np.array(
        [sum(share * float(v_b[i] @ c[s]) for share, s in zip(shares, visible, strict=True)) for i in range(7)],
        np.float32,
    )


def test_latent_attention_is_its_definition() -> None:
    at = attending(ATTENTION, {0: random(6, 27), 1: random(6, 10, seed=2)})
    out = latent_attention(ATTENTION, at)

    assert out.dtype == np.float32
    for t in range(6):
        for head in range(3):
            expected = written_out(at, t, head, range(t + 1))
            assert out[t].reshape(3, 7)[head] == pytest.approx(expected, abs=1e-5)


def test_latent_attention_keeps_normed_latents_and_turned_keys_and_nothing_else() -> None:
    latent = random(6, 10, seed=2)
    at = attending(ATTENTION, {0: random(6, 27), 1: latent})
    latent_attention(ATTENTION, at)

    kept = at.caches[0].keys.up_to(at.rows.tables[0], 5)[:, 0]
    assert np.array_equal(kept[:, :6], rms_norm(latent[:, :6], at.weights["norm"], 0.5))
    assert np.array_equal(kept[:, 6:], turn(latent[:, None, 6:], POSITIONS, ATTENTION.rope)[:, 0])
    assert at.caches[0].values.blocks.size == 0


def test_latent_attention_sees_what_was_selected_alone() -> None:
    selection = np.array([[0, -1], [0, 1], [0, 2], [1, 2], [0, 4], [5, -1]], np.float32)
    op = replace(ATTENTION, selection=Tensor(3, "tokens", 2))
    at = attending(op, {0: random(6, 27), 1: random(6, 10, seed=2), 3: selection})
    out = latent_attention(op, at)

    for t, visible in enumerate([[0], [0, 1], [0, 2], [1, 2], [0, 4], [5]]):
        assert out[t].reshape(3, 7)[1] == pytest.approx(written_out(at, t, 1, visible), abs=1e-5)


@settings(max_examples=60)
@given(data=st.data())
def test_both_forms_of_latent_attention_agree_to_rounding(data: st.DataObject) -> None:
    heads, positions, r, dn, dr, dv = (
        data.draw(st.integers(1, high), label=name)
        for name, high in (("heads", 5), ("positions", 40), ("r", 33), ("dn", 17), ("dr", 9), ("dv", 19))
    )
    q, keys = random(heads, dn + dr), random(positions, r + dr, seed=2)
    k_b, v_b = random(heads, r, dn, seed=3) / np.float32(r**0.5), random(heads, dv, r, seed=4) / np.float32(r**0.5)
    chosen = data.draw(st.sets(st.integers(0, positions - 1), min_size=1), label="selected")
    visible = keys[sorted(chosen)]
    scale = (dn + dr) ** -0.5

    first, second = expanded(q, visible, k_b, v_b, scale), absorbed(q, visible, k_b, v_b, scale)
    assert first.shape == second.shape == (heads, dv)
    assert first == pytest.approx(second, abs=1e-5)


def test_the_index_of_a_position_is_its_definition() -> None:
    q, keys, head_weights = random(2, 6), random(5, 6, seed=2), np.array([0.7, -0.4], np.float32)

    expected = [sum(float(head_weights[h]) * max(0.0, float(q[h] @ keys[s])) for h in range(2)) for s in range(5)]
    assert index(q, keys, head_weights) == pytest.approx(expected, abs=1e-5)


def test_positions_are_selected_by_normed_and_turned_keys() -> None:
    q, k, head_weights = random(6, 12), random(6, 6, seed=2), random(6, 2, seed=3)
    at = scope(INDEX, (INDEX.norm, INDEX.norm_bias), {0: q, 1: k, 2: head_weights})
    out = select_positions(INDEX, at)

    keys = turn(layer_norm(k, at.weights["norm"], at.weights["norm.bias"], 0.5)[:, None], POSITIONS, INDEX.rope)[:, 0]
    queries = turn(q.reshape(6, 2, 6), POSITIONS, INDEX.rope)
    assert np.array_equal(at.caches[0].keys.up_to(at.rows.tables[0], 5)[:, 0], keys)
    for t in range(6):
        ranked = sorted((-each, s) for s, each in enumerate(index(queries[t], keys[: t + 1], head_weights[t]).tolist()))
        best = sorted(s for _, s in ranked[:3])
        assert out[t].tolist() == [*best, *[-1] * (3 - len(best))]


@pytest.mark.parametrize(
    ("indexes", "top_k", "positions"),
    [
        ([0.5, 2.0, 1.0, 3.0], 2, [1, 3]),
        ([0.5, 2.0, 1.0, 3.0], 6, [0, 1, 2, 3, -1, -1]),
        ([0.0, 1.0, 0.0, 0.0, 0.0], 3, [0, 1, 2]),
        ([-1.0, 0.0, -2.0, 0.0], 1, [1]),
        ([-3.0, -1.0, -2.0], 2, [1, 2]),
    ],
    ids=["the largest, in order", "all there are", "the earlier among zeros", "the earliest", "negative ones"],
)
def test_the_largest_are_selected_in_ascending_order(indexes: list[float], top_k: int, positions: list[int]) -> None:
    assert selected(np.array(indexes, np.float32), top_k).tolist() == positions
