"""How rows choose experts and what these add, against values worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops.program import Experts, Routing, Tensor, Weight
from tailrace.ops.reference_cache import Rows
from tailrace.ops.reference_experts import experts, route
from tailrace.ops.reference_scope import Scope
from tests.support.steps import Part, limits, step

Array = NDArray[np.float32]


def logits_of(*shares: float) -> Array:
    """Logits whose softmax are these shares."""
    return np.array([math.log(share) for share in shares], np.float32)


def scores_of(*scores: float) -> Array:
    """Logits whose sigmoids are these scores."""
    return np.array([math.log(score / (1 - score)) for score in scores], np.float32)


def routed(logits: Array, routing: Routing, bias: list[float] | None = None) -> list[tuple[int, float]]:
    """The chosen, best first, and their weights to four places."""
    ids, weights = route(logits, None if bias is None else np.array(bias, np.float32), routing)
    assert weights.dtype == np.float32
    return [(int(expert), round(float(weight), 4)) for expert, weight in zip(ids, weights, strict=True)]


def test_greedy_softmax_takes_the_largest_and_their_shares_of_all() -> None:
    logits = logits_of(0.1, 0.4, 0.05, 0.3, 0.15)

    assert routed(logits, Routing(5, 2, "softmax")) == [(1, 0.4), (3, 0.3)]
    assert routed(logits, Routing(5, 3, "softmax", scale=16.0)) == [(1, 6.4), (3, 4.8), (4, 2.4)]


def test_normalised_weights_add_up_to_the_scale() -> None:
    logits = logits_of(0.1, 0.4, 0.05, 0.3, 0.15)

    assert routed(logits, Routing(5, 2, "softmax", normalize=True, scale=2.5)) == [(1, 1.4286), (3, 1.0714)]


def test_a_group_ranks_by_its_largest() -> None:
    logits = logits_of(0.30, 0.01, 0.22, 0.20, 0.25, 0.02)  # groups of two: 0.30, 0.22, 0.25
    routing = Routing(6, 3, "softmax", num_groups=3, top_groups=2)

    assert routed(logits, routing) == [(0, 0.30), (4, 0.25), (5, 0.02)]


def test_a_group_ranks_by_the_sum_of_its_two_largest() -> None:
    logits = scores_of(0.9, 0.1, 0.1, 0.6, 0.55, 0.5, 0.3, 0.3, 0.3)  # groups of three: 1.0, 1.15, 0.6
    routing = Routing(9, 2, "sigmoid", num_groups=3, top_groups=1, group_rank="top two")

    assert routed(logits, routing) == [(3, 0.6), (4, 0.55)]
    assert routed(logits, replace(routing, group_rank="max")) == [(0, 0.9), (1, 0.1)]


def test_a_bias_chooses_but_does_not_weigh() -> None:
    logits = scores_of(0.8, 0.6, 0.4, 0.2)
    routing = Routing(4, 2, "sigmoid", normalize=True, scale=2.0)

    assert routed(logits, routing, bias=[0.0, 0.0, 0.0, 0.5]) == [(0, 2 * 0.8), (3, 2 * 0.2)]
    assert routed(logits, routing, bias=[-0.5, 0.0, 0.0, 0.0]) == [(1, 2 * 0.6), (2, 2 * 0.4)]


def test_an_expert_of_a_chosen_group_comes_before_any_other_however_low_it_ranks() -> None:
    """Whoever masks the others with zero takes one of them for an expert that its bias makes negative."""
    logits = scores_of(0.9, 0.5, 0.4, 0.4)
    routing = Routing(4, 2, "sigmoid", num_groups=2, top_groups=1, group_rank="max")

    assert routed(logits, routing, bias=[0.0, -2.0, 0.0, 0.0]) == [(0, 0.9), (1, 0.5)]


def test_the_lower_number_wins_among_equals() -> None:
    assert [expert for expert, _ in routed(np.zeros(6, np.float32), Routing(6, 3, "softmax"))] == [0, 1, 2]
    in_groups = Routing(6, 3, "sigmoid", num_groups=3, top_groups=2, group_rank="top two")
    assert [expert for expert, _ in routed(np.zeros(6, np.float32), in_groups)] == [0, 1, 2]
    assert [expert for expert, _ in routed(scores_of(0.2, 0.7, 0.7, 0.7), Routing(4, 2, "sigmoid"))] == [1, 2]


def test_scores_that_vanish_leave_weights_of_zero() -> None:
    routing = Routing(2, 2, "sigmoid", normalize=True)

    assert routed(np.array([-200.0, -200.0], np.float32), routing) == [(0, 0.0), (1, 0.0)]


@given(
    logits=st.lists(st.floats(-8, 8, width=32), min_size=12, max_size=12),
    bias=st.lists(st.floats(-1, 1, width=32), min_size=12, max_size=12),
    group_rank=st.sampled_from(["max", "top two"]),
    top_groups=st.integers(1, 4),
    top_k=st.integers(1, 3),
)
def test_the_chosen_lie_in_the_best_groups_and_rank_best_there(
    logits: list[float], bias: list[float], group_rank: str, top_groups: int, top_k: int
) -> None:
    counted = 1 if group_rank == "max" else 2
    routing = Routing(
        12, top_k, "sigmoid", 4, top_groups, "max" if counted == 1 else "top two", normalize=True, scale=2.0
    )
    row, biases = np.array(logits, np.float32), np.array(bias, np.float32)
    ids, weights = route(row, biases, routing)

    ranks = 1 / (1 + np.exp(-row)) + biases
    groups = [sorted(range(3 * g, 3 * g + 3), key=lambda e: -ranks[e]) for g in range(4)]
    by_rank = sorted(range(4), key=lambda g: -sum(ranks[e] for e in groups[g][:counted]))
    best = sorted((e for g in by_rank[:top_groups] for e in groups[g]), key=lambda e: -ranks[e])[:top_k]
    assert ranks[ids] == pytest.approx(ranks[best], abs=1e-6)
    assert len(set(ids)) == top_k
    assert weights.sum() == pytest.approx(2.0, rel=1e-5)


def test_experts_add_to_the_residual_what_they_make_of_a_row_by_weight() -> None:
    rng = np.random.default_rng(0)
    gate, up, down = (rng.normal(size=shape).astype(np.float32) for shape in ((3 * 4, 5), (3 * 4, 5), (3 * 5, 4)))
    x, residual = rng.normal(size=(2, 5)).astype(np.float32), rng.normal(size=(2, 5)).astype(np.float32)
    logits = np.stack([logits_of(0.5, 0.2, 0.3), logits_of(0.1, 0.6, 0.3)])
    op = Experts(
        x=Tensor(0, "tokens", 5),
        logits=Tensor(1, "tokens", 3),
        bias=Weight("bias", (3,)),
        routing=Routing(3, 2, "softmax", scale=2.0),
        gate=Weight("gate", (12, 5)),
        up=Weight("up", (12, 5)),
        down=Weight("down", (15, 4)),
        residual=Tensor(2, "tokens", 5),
        out=Tensor(3, "tokens", 5),
    )
    weights = {"gate": gate, "up": up, "down": down, "bias": np.array([0.0, 0.0, 0.4], np.float32)}
    rows = Rows.of(step(limits(), Part(0, 0, [0, 0])))
    out = experts(op, Scope(weights, [], rows, {0: x, 1: logits, 2: residual}))

    for t, chosen in enumerate([{0: 1.0, 2: 0.6}, {1: 1.2, 2: 0.6}]):
        expected = residual[t].copy()
        for expert, share in chosen.items():
            hidden = [
                float(gate[4 * expert + i] @ x[t])
                / (1 + math.exp(-float(gate[4 * expert + i] @ x[t])))
                * float(up[4 * expert + i] @ x[t])
                for i in range(4)
            ]
            expected += [share * float(down[5 * expert + o] @ hidden) for o in range(5)]
        assert out[t] == pytest.approx(expected, abs=1e-4)
    assert not np.array_equal(out, residual)
