"""What every back end must do with mixtures of experts: compute what the reference does, the same bits in any company.

A row that is rounded on its way may choose other experts than the reference's: where weights are quantised, most rows
are compared, not all.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.models.config import ModelConfig
from tailrace.ops.api import Backend
from tests.contract.test_backends import (
    BACKENDS,
    LIMITS,
    NUM_TOKENS,
    PACKS,
    TOLERANCE,
    error,
    loaded,
    logits_of,
    reference_logits,
)
from tests.support.mixtures import MIXTURES
from tests.support.steps import Part, step, teacher_forced
from tests.support.tiny import DEEPSEEK_CONFIGS, Pack, random_ids

MODELS = MIXTURES | {name: config for name, config in DEEPSEEK_CONFIGS.items() if config.mixture is not None}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


def median_error(backend: Backend, config: ModelConfig, pack: Pack) -> float:
    computed, expected = logits_of(backend, config, pack), reference_logits(config, pack)
    return float(np.median([error(row, wanted) for row, wanted in zip(computed, expected, strict=True)]))


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_reference(backend: Backend, name: str) -> None:
    expected = reference_logits(MODELS[name])

    assert error(logits_of(backend, MODELS[name]), expected) < TOLERANCE["f32"]


@pytest.mark.parametrize("name", PACKS)
def test_every_weight_format_is_multiplied(backend: Backend, name: str) -> None:
    assert median_error(backend, MIXTURES["softmax, shared, behind a dense layer"], PACKS[name]) < TOLERANCE[name]


@pytest.mark.parametrize("name", ["f32", "int4"])
@settings(max_examples=4)
@given(chunk_tokens=st.integers(1, 70), mixture=st.sampled_from(sorted(MODELS)))
def test_chunks_do_not_change_a_bit(name: str, chunk_tokens: int, mixture: str) -> None:
    for make in BACKENDS.values():
        with loaded(make(), MODELS[mixture], PACKS[name]) as executable:
            ids = random_ids(MODELS[mixture], NUM_TOKENS)
            whole = teacher_forced(executable, LIMITS, ids, chunk_tokens=NUM_TOKENS)
            chunked = teacher_forced(executable, LIMITS, ids, chunk_tokens=chunk_tokens, slot=2)

        assert np.array_equal(chunked, whole)


@pytest.mark.parametrize("name", ["every second layer", "latent and experts"])
def test_which_rows_are_sampled_does_not_change_a_bit(backend: Backend, name: str) -> None:
    """The last layer computes those alone: none, one, some."""
    config = MODELS[name]
    ids = random_ids(config, 60)
    with loaded(backend, config, PACKS["int8"]) as executable:
        whole = teacher_forced(executable, LIMITS, ids, chunk_tokens=60).copy()
        for rows in ([], [59], [3, 4, 5, 30, 31, 59]):
            some = executable.logits(step(LIMITS, Part(1, 0, ids), sample_rows=rows))
            assert np.array_equal(some, whole[rows])
