"""The specification of sampling, one row at a time: see `api.SamplingInputs` for the order of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import MAX_TOP_LOGPROBS, NO_TOKEN, SampleOutputs, SamplingInputs

__all__ = ["philox4x32", "sample", "uniform"]

_WORD = 0xFFFF_FFFF
_MULTIPLIERS = 0xD251_1F53, 0xCD9E_8D57
_KEY_STEPS = 0x9E37_79B9, 0xBB67_AE85
_ROUNDS = 10


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Four random 32-bit words for a counter and a key: Philox4x32-10 (Salmon et al., SC 2011)."""
    x0, x1, x2, x3 = counter
    key0, key1 = key
    for _ in range(_ROUNDS):
        product0, product1 = _MULTIPLIERS[0] * x0, _MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (
            (product1 >> 32) ^ x1 ^ key0,
            product1 & _WORD,
            (product0 >> 32) ^ x3 ^ key1,
            product0 & _WORD,
        )
        key0, key1 = (key0 + _KEY_STEPS[0]) & _WORD, (key1 + _KEY_STEPS[1]) & _WORD
    return x0, x1, x2, x3


def uniform(seed: int, position: int) -> float:
    """The draw in [0, 1) that belongs to one position of one seed; 53 random bits."""
    x0, x1, _, _ = philox4x32((position & _WORD, position >> 32, 0, 0), (seed & _WORD, seed >> 32))
    return float((x0 << 21) ^ (x1 >> 11)) * 2.0**-53


@dataclass(frozen=True, slots=True)
class _Row:
    """The sampling of one row, unpacked from the ragged arrays."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    position: int
    repetition_penalty: np.float32
    frequency_penalty: np.float32
    presence_penalty: np.float32
    prompt_ids: NDArray[np.int32]
    output_ids: NDArray[np.int32]
    bias_ids: NDArray[np.int32]
    bias_values: NDArray[np.float32]
    allowed: NDArray[np.bool_] | None  # by token; None: all are


def _row(inputs: SamplingInputs, s: int, allowed: NDArray[np.bool_] | None) -> _Row:
    history = slice(inputs.history_starts[s], inputs.history_starts[s + 1])
    biases = slice(inputs.bias_starts[s], inputs.bias_starts[s + 1])
    prompt_ids, output_ids = np.split(inputs.history_ids[history], [inputs.history_prompt_tokens[s]])
    return _Row(
        temperature=float(inputs.temperature[s]),
        top_p=float(inputs.top_p[s]),
        top_k=int(inputs.top_k[s]),
        min_p=float(inputs.min_p[s]),
        seed=int(inputs.seed[s]),
        position=int(inputs.position[s]),
        repetition_penalty=inputs.repetition_penalty[s],
        frequency_penalty=inputs.frequency_penalty[s],
        presence_penalty=inputs.presence_penalty[s],
        prompt_ids=prompt_ids,
        output_ids=output_ids,
        bias_ids=inputs.bias_ids[biases],
        bias_values=inputs.bias_values[biases],
        allowed=allowed,
    )


def sample(
    logits: NDArray[np.float32], inputs: SamplingInputs, allowed: Sequence[NDArray[np.bool_] | None] | None = None
) -> SampleOutputs:
    """Draw one token a row of `logits` [S, vocab]; `allowed` says of each row by token what may be drawn."""
    num_samples = len(logits)
    outputs = SampleOutputs(
        token_ids=np.zeros(num_samples, np.int32),
        logprobs=np.zeros(num_samples, np.float32),
        top_ids=np.zeros((num_samples, MAX_TOP_LOGPROBS), np.int32),
        top_logprobs=np.zeros((num_samples, MAX_TOP_LOGPROBS), np.float32),
    )
    for s, row_logits in enumerate(logits):
        outputs.token_ids[s] = _draw(row_logits, _row(inputs, s, None if allowed is None else allowed[s]))
        if inputs.num_logprobs[s] >= 0:
            _report_logprobs(outputs, s, row_logits, int(inputs.num_logprobs[s]))
    return outputs


def _report_logprobs(outputs: SampleOutputs, s: int, logits: NDArray[np.float32], num_best: int) -> None:
    """Fill row `s` with the model's own log probabilities: of the drawn token and of the best ones."""
    logprobs = _log_softmax(logits)
    best = _best_first(logprobs)[: min(num_best, MAX_TOP_LOGPROBS)]
    drawn = outputs.token_ids[s]
    outputs.logprobs[s] = -np.inf if drawn == NO_TOKEN else logprobs[drawn]
    outputs.top_ids[s, : len(best)] = best
    outputs.top_logprobs[s, : len(best)] = logprobs[best]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted: NDArray[np.float32] = logits - logits.max()
    normaliser: np.float32 = np.log(np.exp(shifted).sum())
    return shifted - normaliser


def _draw(logits: NDArray[np.float32], row: _Row) -> int:
    adjusted = _biased(_penalised(logits, row), row)
    if row.allowed is not None:
        adjusted = np.where(row.allowed, adjusted, np.float32(-np.inf))
        if np.isneginf(adjusted.max()):
            return NO_TOKEN
    if row.temperature == 0.0 or np.isneginf(adjusted.max()):
        return int(adjusted.argmax())  # the first, so the lowest id, among equals
    weights = _weights(adjusted, row.temperature)
    candidates = _candidates(weights, row)
    cumulative = weights[candidates].cumsum()
    return int(candidates[np.searchsorted(cumulative, uniform(row.seed, row.position) * cumulative[-1], side="right")])


def _penalised(logits: NDArray[np.float32], row: _Row) -> NDArray[np.float32]:
    """Repetition counts the prompt too; frequency and presence count what was generated."""
    adjusted = logits.copy()
    seen = np.unique(np.concatenate([row.prompt_ids, row.output_ids]))
    repeated = adjusted[seen]
    adjusted[seen] = np.where(repeated > 0, repeated / row.repetition_penalty, repeated * row.repetition_penalty)
    generated, counts = np.unique(row.output_ids, return_counts=True)
    adjusted[generated] -= row.frequency_penalty * counts.astype(np.float32) + row.presence_penalty
    return adjusted


def _biased(logits: NDArray[np.float32], row: _Row) -> NDArray[np.float32]:
    biased = logits.copy()
    np.add.at(biased, row.bias_ids, row.bias_values)
    return biased


def _weights(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    """Probabilities up to a common factor: the best token weighs 1."""
    scaled: NDArray[np.float32] = logits / np.float32(temperature)
    return np.exp(scaled.astype(np.float64) - float(scaled.max()))


def _candidates(weights: NDArray[np.float64], row: _Row) -> NDArray[np.intp]:
    """The ids that may be drawn, best first."""
    ids = _best_first(weights)
    ids = ids[weights[ids] >= row.min_p]  # the best weighs 1
    if row.top_k > 0:
        ids = ids[: row.top_k]
    if row.top_p < 1.0:
        cumulative = weights[ids].cumsum()
        ids = ids[: np.searchsorted(cumulative, row.top_p * cumulative[-1], side="left") + 1]
    return ids


def _best_first(values: NDArray[np.floating]) -> NDArray[np.intp]:
    """Ids by descending value; among equals the lower id comes first."""
    return np.argsort(-values, kind="stable")
