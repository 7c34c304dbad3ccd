"""Every architecture on the reference: a row has the same bits in any chunks, blocks and company."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import from_float32
from tailrace.ops.reference import ReferenceBackend, ReferenceExecutable
from tests.support.steps import Part, limits, step, teacher_forced
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, random_ids, random_weights

LIMITS = limits(max_tokens=80, max_model_tokens=48, block_tokens=8)
NUM_TOKENS = 44
ALL = CONFIGS | DEEPSEEK_CONFIGS


@pytest.fixture(params=ALL)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    return ALL[request.param]


def load(config: ModelConfig) -> ReferenceExecutable:
    return ReferenceBackend().load(build_program(config), random_weights(config), LIMITS)


@cache
def whole(config: ModelConfig) -> NDArray[np.float32]:
    return teacher_forced(load(config), LIMITS, random_ids(config, NUM_TOKENS), chunk_tokens=NUM_TOKENS)


@pytest.mark.parametrize("name", DEEPSEEK_CONFIGS)
@settings(max_examples=5)
@given(chunk_tokens=st.integers(1, 30), slot=st.integers(0, 3))
def test_chunks_and_places_do_not_change_a_bit(name: str, chunk_tokens: int, slot: int) -> None:
    config = DEEPSEEK_CONFIGS[name]
    ids = random_ids(config, NUM_TOKENS)
    chunked = teacher_forced(load(config), LIMITS, ids, chunk_tokens=chunk_tokens, slot=slot)

    assert np.array_equal(chunked, whole(config))


def test_other_sequences_of_the_step_do_not_change_a_bit(config: ModelConfig) -> None:
    ids, others = random_ids(config, NUM_TOKENS), random_ids(config, NUM_TOKENS, seed=2)
    executable = load(config)
    executable.logits(step(LIMITS, Part(2, 0, ids[:21]), Part(1, 0, others[:40])))
    mixed = executable.logits(step(LIMITS, Part(0, 0, others[:3]), Part(2, 21, ids[21:]), Part(1, 40, others[40:41])))

    assert np.array_equal(mixed[3:26], whole(config)[21:])


def test_a_copied_block_continues_like_its_source(config: ModelConfig) -> None:
    ids, executable = random_ids(config, NUM_TOKENS), load(config)
    executable.logits(step(LIMITS, Part(0, 0, ids[:13])))
    tables = step(LIMITS, Part(0, 0, [0])).block_tables
    executable.copy_block(int(tables[0, 0]), int(tables[1, 0]), 8)
    executable.copy_block(int(tables[0, 1]), int(tables[1, 1]), 5)

    assert np.array_equal(executable.logits(step(LIMITS, Part(1, 13, ids[13:]))), whole(config)[13:])


def test_what_a_block_held_before_does_not_matter(config: ModelConfig) -> None:
    """Not even values that are no numbers."""
    weights = random_weights(config)
    poisoned = weights["embed"].values.copy()
    poisoned[0] = np.nan
    program = build_program(replace(config, tie_word_embeddings=False))
    executable = ReferenceBackend().load(
        program, {"head": weights["embed"], **weights, "embed": from_float32(poisoned)}, LIMITS
    )
    ids = [1 + token % 70 for token in random_ids(config, NUM_TOKENS)]
    clean = teacher_forced(executable, LIMITS, ids, chunk_tokens=9, slot=1)
    with np.errstate(invalid="ignore"):
        teacher_forced(executable, LIMITS, [0] * 48, chunk_tokens=48)
    after = teacher_forced(executable, LIMITS, ids, chunk_tokens=9)

    assert np.isfinite(clean).all()
    assert np.array_equal(after, clean)


def test_an_index_that_selects_everything_is_no_index() -> None:
    config = DEEPSEEK_CONFIGS["sparse"]
    assert config.sparse is not None
    everything = replace(config, sparse=replace(config.sparse, top_k=48))
    weights = random_weights(config)
    dense, selecting = (
        teacher_forced(
            ReferenceBackend().load(build_program(each), weights, LIMITS),
            LIMITS,
            random_ids(config, NUM_TOKENS),
            chunk_tokens=NUM_TOKENS,
        )
        for each in (replace(config, sparse=None), everything)
    )

    assert np.array_equal(dense, selecting)
    assert not np.array_equal(dense, whole(config))
