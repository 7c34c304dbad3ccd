"""How well a model foretells a text it has not been fitted to, in float32 arithmetic on its weights as they are."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UnsupportedModel
from tailrace.ops.program import Linear, Program, Tensor, Weight
from tailrace.ops.reference_math import Array
from tailrace.quantizing.forward import Forward, ReadRows, TokenIds, product
from tailrace.quantizing.segments import needed_after, segments

__all__ = ["foretell", "perplexity"]

_VOCABULARY_ROWS = 8192  # logits computed at a time


def perplexity(logprobs: NDArray[np.float64]) -> float:
    """e to the mean surprise."""
    return float(np.exp(-logprobs.mean()))


def foretell(
    program: Program, read: ReadRows, token_ids: TokenIds, progress: Callable[[int, int], None]
) -> NDArray[np.float64]:
    """The log probability of every token but the first of each sequence [N, L], behind those before it: [N, L - 1].

    `progress` is told segments computed and in all. One layer's weights are in memory at a time.
    """
    body, (head, x) = program.ops[:-1], _head(program)
    state: dict[int, Array] = {}
    parts = segments(body)
    for done, ops in enumerate(parts):
        progress(done, len(parts))
        forward = Forward(token_ids[:, :-1], read, state)
        forward.run(ops)
        state = needed_after(program, ops, forward.tensors)
    logprobs = _log_probabilities(state[x.index], head, read, token_ids[:, 1:].reshape(-1))
    progress(len(parts), len(parts))
    return logprobs.reshape(len(token_ids), -1)


def _head(program: Program) -> tuple[Weight, Tensor]:
    match program.ops[-1]:
        case Linear(x=x, weights=(weight,), biases=(None,), residual=None):
            return weight, x
        case op:
            raise UnsupportedModel(f"the model ends with {type(op).__name__}, not with a plain head")


def _log_probabilities(x: Array, head: Weight, read: ReadRows, coming: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the coming tokens, with a running maximum and sum: all logits at once would take gigabytes."""
    highest = np.full(len(x), -np.inf)
    total, logit_of_coming = np.zeros(len(x)), np.empty(len(x))
    for begin in range(0, head.shape[0], _VOCABULARY_ROWS):
        end = min(begin + _VOCABULARY_ROWS, head.shape[0])
        logits = product(x, read(head.name, begin, end)).astype(np.float64)
        here = np.flatnonzero((coming >= begin) & (coming < end))
        logit_of_coming[here] = logits[here, coming[here] - begin]
        higher = np.maximum(highest, logits.max(axis=1))
        total = total * np.exp(highest - higher) + np.exp(logits - higher[:, None]).sum(axis=1)
        highest = higher
    logprobs: NDArray[np.float64] = logit_of_coming - highest - np.log(total)
    return logprobs
