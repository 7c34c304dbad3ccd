import numpy as np
import pytest

from tailrace.models.registry import build_program
from tailrace.quantizing.perplexity import foretell, perplexity
from tailrace.quantizing.source import open_source, rows_of
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import Prose
from tests.support.tiny import CONFIGS, random_ids, random_weights

TOKENS = 300


def test_logprobs_are_those_that_transformers_finds() -> None:
    source, prose = open_source(open_checkpoint("tiny-deepseek")), Prose.read("tiny_deepseek")
    told: list[tuple[int, int]] = []
    found = foretell(
        source.program,
        source.reader(),
        np.array([prose.token_ids[: TOKENS + 1]]),
        lambda done, total: told.append((done, total)),
    )

    np.testing.assert_allclose(found[0], prose.logprobs[:TOKENS], atol=1e-3)
    assert told == [(done, 5) for done in range(6)]  # of three layers, and what comes before and behind
    assert perplexity(found) == pytest.approx(np.exp(-prose.logprobs[:TOKENS].mean(dtype=np.float64)), rel=1e-4)


def test_a_model_that_knows_nothing_is_as_perplexed_as_its_vocabulary_is_large() -> None:
    config = CONFIGS["plain"]
    weights = random_weights(config)
    weights["head"].values[:] = 0
    token_ids = np.array([random_ids(config, 20), random_ids(config, 20, seed=2)])
    found = foretell(
        build_program(config), lambda name, begin, end: rows_of(weights[name], begin, end), token_ids, lambda *_: None
    )

    assert found.shape == (2, 19)
    assert perplexity(found) == pytest.approx(config.vocab_size)
