"""What the native back end's arithmetic costs in quality: the default model on 2000 tokens of a novel.

Weights stay as the file has them, so float32 on the dequantised values is the truth: transformers computed it.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from tailrace.models.registry import build_program
from tailrace.ops.api import Executable, KvFormat
from tailrace.ops.load import load_backend
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import Prose, texts
from tests.support.predictions import PROSE_LIMITS, Predictions, log_softmax, predict
from tests.support.steps import teacher_forced


def load(backend: str, kv_format: KvFormat | None = None) -> Executable:
    checkpoint = open_checkpoint("default")
    return load_backend(backend, kv_format).load(build_program(checkpoint.config), checkpoint.tensors, PROSE_LIMITS)


@pytest.fixture(scope="module")
def cpu() -> Iterator[Executable]:
    executable = load("cpu")
    yield executable
    executable.close()


@pytest.fixture(scope="module")
def truth() -> Prose:
    return Prose.read()


@pytest.fixture(scope="module")
def predicted(cpu: Executable, truth: Prose) -> Predictions:
    return predict(cpu, truth)


def test_the_best_token_is_that_of_float32_98_times_in_a_hundred(predicted: Predictions, truth: Prose) -> None:
    assert predicted.agreement(truth) >= 0.98


def test_where_the_best_token_differs_float32_hardly_preferred_its_own(predicted: Predictions, truth: Prose) -> None:
    differing = np.flatnonzero(predicted.best_ids != truth.best_ids[:, 0])
    chosen = truth.best_ids[differing] == predicted.best_ids[differing, None]
    assert chosen.any(axis=1).all()  # always one of its best four

    preferred_by = truth.best_logits[differing, 0] - truth.best_logits[differing][chosen]
    assert preferred_by.max(initial=0.0) < 0.2  # one was at most 1.2 times as probable as the other


def test_perplexity_is_within_half_a_percent_of_float32(predicted: Predictions, truth: Prose) -> None:
    assert predicted.perplexity_ratio(truth) == pytest.approx(1.0, abs=0.005)


def test_keys_and_values_in_int8_cost_little_more(truth: Prose) -> None:
    executable = load("cpu", "int8")
    predicted = predict(executable, truth)
    executable.close()

    assert predicted.agreement(truth) >= 0.97
    assert predicted.perplexity_ratio(truth) == pytest.approx(1.0, abs=0.005)


def test_keys_and_values_in_fp8_cost_more_than_in_int8_and_still_little(truth: Prose) -> None:
    executable = load("cpu", "fp8_e4m3")
    predicted = predict(executable, truth)
    executable.close()

    assert predicted.agreement(truth) >= 0.94
    assert predicted.perplexity_ratio(truth) == pytest.approx(1.0, abs=0.01)


def test_distributions_are_those_of_the_reference(cpu: Executable) -> None:
    reference, ids = load("reference"), texts()[0].token_ids
    expected, computed = (
        log_softmax(teacher_forced(backend, PROSE_LIMITS, ids, chunk_tokens=len(ids))) for backend in (reference, cpu)
    )

    divergence = (np.exp(expected) * (expected - computed)).sum(axis=1)
    assert divergence.mean() < 0.003
    assert np.abs(expected - computed).max() < 1.0  # of no token, however improbable
