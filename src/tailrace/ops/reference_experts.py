"""What a mixture of experts computes: how a row chooses, and what the chosen add. One row at a time."""

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.program import Experts, Routing
from tailrace.ops.reference_math import Array, sigmoid, softmax, swiglu
from tailrace.ops.reference_scope import Scope

__all__ = ["experts", "route"]

_SMALLEST_SUM = np.float32(1e-20)


def experts(op: Experts, scope: Scope) -> Array:
    """residual + what the chosen experts make of x, each by its weight, [rows, d]."""
    gate, up, down = (scope.matrices(weight, op.routing.num_experts) for weight in (op.gate, op.up, op.down))
    bias = None if op.bias is None else scope[op.bias]
    out = scope[op.residual].copy()
    for t, x in enumerate(scope[op.x]):
        for expert, weight in zip(*route(scope[op.logits][t], bias, op.routing), strict=True):
            gate_up = np.concatenate([gate[expert] @ x, up[expert] @ x])
            out[t] += weight * (down[expert] @ swiglu(gate_up))
            scope.count(op, expert)
    return out


def route(logits: Array, bias: Array | None, routing: Routing) -> tuple[NDArray[np.intp], Array]:
    """The chosen experts of one row, best first, and what each counts; logits [E], both results [top_k]."""
    scores = softmax(logits) if routing.scoring == "softmax" else sigmoid(logits)
    ranks = scores if bias is None else scores + bias
    allowed = np.repeat(_best_groups(ranks, routing), routing.num_experts // routing.num_groups)
    chosen = _largest(np.where(allowed, ranks, np.float32(-np.inf)), routing.top_k)
    weights = scores[chosen]
    if routing.normalize:
        weights = weights / (weights.sum() + _SMALLEST_SUM)
    return chosen, weights * np.float32(routing.scale)


def _best_groups(ranks: Array, routing: Routing) -> NDArray[np.bool_]:
    """Which groups may be chosen from, [num_groups]."""
    counted = 1 if routing.group_rank == "max" else 2
    best = np.sort(ranks.reshape(routing.num_groups, -1), axis=1)[:, -counted:]
    is_best = np.zeros(routing.num_groups, np.bool_)
    is_best[_largest(best.sum(axis=1), routing.top_groups)] = True
    return is_best


def _largest(values: Array, count: int) -> NDArray[np.intp]:
    """Where the largest stand, largest first, the lower number among equals."""
    return np.argsort(-values, kind="stable")[:count]
