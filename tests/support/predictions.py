"""What an executable predicts behind each token of the oracle's prose, and how close that comes to float32."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailrace.ops.api import Executable
from tests.support.oracle import Prose
from tests.support.steps import Part, limits, step

__all__ = ["PROSE_LIMITS", "Predictions", "log_softmax", "predict"]

CHUNK_TOKENS = 125
PROSE_LIMITS = replace(
    limits(max_tokens=CHUNK_TOKENS, max_sequences=1, max_model_tokens=2000, block_tokens=16), num_threads=2
)


@dataclass(frozen=True, slots=True)
class Predictions:
    """What was predicted behind each token: the best one, and the log probability of the one that came."""

    best_ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.logprobs.mean()))

    def perplexity_ratio(self, truth: Prose) -> float:
        return float(np.exp(truth.logprobs.mean(dtype=np.float64) - self.logprobs.mean()))

    def agreement(self, truth: Prose) -> float:
        """The share of tokens whose best follower is that of float32."""
        return float(np.mean(self.best_ids == truth.best_ids[:, 0]))


def predict(executable: Executable, prose: Prose) -> Predictions:
    """Every token of the prose as input, in chunks. The executable was loaded with PROSE_LIMITS."""
    best_ids, logprobs = [], []
    for start in range(0, len(prose.logprobs), CHUNK_TOKENS):
        ids = prose.token_ids[start : start + CHUNK_TOKENS]
        logits = executable.logits(step(PROSE_LIMITS, Part(0, start, ids)))
        coming = prose.token_ids[start + 1 : start + 1 + CHUNK_TOKENS]
        best_ids.append(logits.argmax(axis=1))
        logprobs.append(log_softmax(logits)[range(len(ids)), coming])
    return Predictions(np.concatenate(best_ids), np.concatenate(logprobs))


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = logits.astype(np.float64)
    normaliser: NDArray[np.float64] = np.log(np.exp(exact).sum(axis=1, keepdims=True))
    return exact - normaliser
