"""The model that comes with the package, from its file to its text, against transformers on what the file holds."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from tailrace.models.registry import build_program
from tailrace.ops.api import Executable
from tailrace.ops.load import load_backend
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import Request, SamplingParams
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.engine.harness import make_harness
from tests.support.oracle import DATA, TOLERANCE, Prose, Text, texts
from tests.support.predictions import PROSE_LIMITS, Predictions, predict
from tests.support.steps import limits, teacher_forced

MODEL = "tiny_deepseek"
LIMITS = limits(max_model_tokens=64, block_tokens=16)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint("tiny-deepseek")


@pytest.fixture(scope="module")
def reference(checkpoint: Checkpoint) -> Executable:
    return load_backend("reference").load(build_program(checkpoint.config), checkpoint.tensors, LIMITS)


@pytest.fixture(scope="module", params=["bf16", "int8"])
def cpu(checkpoint: Checkpoint, request: pytest.FixtureRequest) -> Iterator[Executable]:
    """With latents kept in either format."""
    backend = load_backend("cpu", request.param)
    executable = backend.load(build_program(checkpoint.config), checkpoint.tensors, PROSE_LIMITS)
    yield executable
    executable.close()


@pytest.fixture(scope="module")
def truth() -> Prose:
    return Prose.read(MODEL)


@pytest.fixture(scope="module")
def predicted(cpu: Executable, truth: Prose) -> Predictions:
    return predict(cpu, truth)


@pytest.mark.parametrize("chunk_tokens", [64, 5])
@pytest.mark.parametrize("text", texts(MODEL), ids=["page", "chat", "hole"])
def test_logits_are_those_of_transformers(reference: Executable, text: Text, chunk_tokens: int) -> None:
    logits = teacher_forced(reference, LIMITS, text.token_ids, chunk_tokens=chunk_tokens)

    assert text.largest_error(logits) < TOLERANCE


def test_greedy_text_is_that_of_transformers(checkpoint: Checkpoint) -> None:
    kept = np.load(DATA / MODEL / "greedy.npz")
    harness = make_harness(checkpoint, backend="reference", max_model_tokens=128)
    for (begin, end), answer in zip(pairwise(kept["starts"]), kept["answers"].tolist(), strict=True):
        sampling = SamplingParams(max_tokens=len(answer), temperature=0.0, ignore_eos=True)
        request = Request(f"from {begin}", tuple(kept["prompt_ids"][begin:end].tolist()), sampling)

        assert harness.run([request])[request.request_id] == answer


def test_text_is_cut_into_the_tokens_that_the_model_learnt(checkpoint: Checkpoint, truth: Prose) -> None:
    tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
    _, *ids = truth.token_ids  # the first begins the text

    assert tokenizer.encode(tokenizer.decode(ids), allow_control=False) == ids


def test_the_best_token_is_that_of_float32_98_times_in_a_hundred(predicted: Predictions, truth: Prose) -> None:
    assert predicted.agreement(truth) >= 0.98


def test_where_the_best_token_differs_float32_hardly_preferred_its_own(predicted: Predictions, truth: Prose) -> None:
    differing = np.flatnonzero(predicted.best_ids != truth.best_ids[:, 0])
    chosen = truth.best_ids[differing] == predicted.best_ids[differing, None]
    assert chosen.any(axis=1).all()  # always one of its best four

    preferred_by = truth.best_logits[differing, 0] - truth.best_logits[differing][chosen]
    assert preferred_by.max(initial=0.0) < 0.5  # a row whose experts are another choice of near equals is further off


def test_perplexity_is_within_half_a_percent_of_float32(predicted: Predictions, truth: Prose) -> None:
    assert predicted.perplexity_ratio(truth) == pytest.approx(1.0, abs=0.005)
