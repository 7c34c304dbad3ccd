"""What the native back end's arithmetic costs in quality: the default model on 2000 tokens of a novel.

Weights stay as the file has them, so float32 on the dequantised values is the truth: transformers computed it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.registry import build_program
from tailrace.ops.api import Executable
from tailrace.ops.load import load_backend
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import Prose, texts
from tests.support.steps import Part, limits, step, teacher_forced

CHUNK_TOKENS = 125
LIMITS = replace(
    limits(max_tokens=CHUNK_TOKENS, max_sequences=1, max_model_tokens=2000, block_tokens=16), num_threads=2
)


def load(backend: str) -> Executable:
    checkpoint = open_checkpoint("default")
    return load_backend(backend).load(build_program(checkpoint.config), checkpoint.tensors, LIMITS)


@pytest.fixture(scope="module")
def cpu() -> Iterator[Executable]:
    executable = load("cpu")
    yield executable
    executable.close()


@dataclass(frozen=True, slots=True)
class Predictions:
    """What was predicted behind each token: the best one, and the log probability of the one that came."""

    best_ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]


@pytest.fixture(scope="module")
def truth() -> Prose:
    return Prose.read()


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = logits.astype(np.float64)
    normaliser: NDArray[np.float64] = np.log(np.exp(exact).sum(axis=1, keepdims=True))
    return exact - normaliser


@pytest.fixture(scope="module")
def predicted(cpu: Executable, truth: Prose) -> Predictions:
    best_ids, logprobs = [], []
    for start in range(0, len(truth.logprobs), CHUNK_TOKENS):
        ids = truth.token_ids[start : start + CHUNK_TOKENS]
        logits = cpu.logits(step(LIMITS, Part(0, start, ids)))
        coming = truth.token_ids[start + 1 : start + 1 + CHUNK_TOKENS]
        best_ids.append(logits.argmax(axis=1))
        logprobs.append(log_softmax(logits)[range(len(ids)), coming])
    return Predictions(np.concatenate(best_ids), np.concatenate(logprobs))


def test_the_best_token_is_that_of_float32_98_times_in_a_hundred(predicted: Predictions, truth: Prose) -> None:
    assert np.mean(predicted.best_ids == truth.best_ids[:, 0]) >= 0.98


def test_where_the_best_token_differs_float32_hardly_preferred_its_own(predicted: Predictions, truth: Prose) -> None:
    differing = np.flatnonzero(predicted.best_ids != truth.best_ids[:, 0])
    chosen = truth.best_ids[differing] == predicted.best_ids[differing, None]
    assert chosen.any(axis=1).all()  # always one of its best four

    preferred_by = truth.best_logits[differing, 0] - truth.best_logits[differing][chosen]
    assert preferred_by.max(initial=0.0) < 0.2  # one was at most 1.2 times as probable as the other


def test_perplexity_is_within_half_a_percent_of_float32(predicted: Predictions, truth: Prose) -> None:
    ratio = np.exp(truth.logprobs.mean(dtype=np.float64) - predicted.logprobs.mean())

    assert ratio == pytest.approx(1.0, abs=0.005)


def test_distributions_are_those_of_the_reference(cpu: Executable) -> None:
    reference, ids = load("reference"), texts()[0].token_ids
    expected, computed = (
        log_softmax(teacher_forced(backend, LIMITS, ids, chunk_tokens=len(ids))) for backend in (reference, cpu)
    )

    divergence = (np.exp(expected) * (expected - computed)).sum(axis=1)
    assert divergence.mean() < 0.003
    assert np.abs(expected - computed).max() < 1.0  # of no token, however improbable
