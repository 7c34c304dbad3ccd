"""Tiny random models of every kind, from their Hugging Face directories to their logits, against transformers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.reference import ReferenceBackend, ReferenceExecutable
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import TOLERANCE, TinyModel, tiny_models
from tests.support.steps import Part, limits, step, teacher_forced

LIMITS = limits(max_tokens=160, max_model_tokens=48, block_tokens=16)


@pytest.fixture(params=tiny_models())
def tiny(request: pytest.FixtureRequest) -> TinyModel:
    return TinyModel.read(request.param)


def config_of(checkpoint: Checkpoint, tiny: TinyModel) -> ModelConfig:
    """Dynamic scaling stretches for the longest sequence: transformers saw one of this many tokens."""
    return replace(checkpoint.config, max_model_tokens=len(tiny.token_ids))


def load(checkpoint: Checkpoint, config: ModelConfig) -> ReferenceExecutable:
    return ReferenceBackend().load(build_program(config), checkpoint.tensors, LIMITS)


@pytest.fixture
def executable(tiny: TinyModel) -> ReferenceExecutable:
    checkpoint = open_checkpoint(str(tiny.directory))
    return load(checkpoint, config_of(checkpoint, tiny))


def assert_close(logits: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("chunk_tokens", [48, 7, 1], ids=["in one piece", "in chunks", "token by token"])
def test_logits_are_those_of_transformers(tiny: TinyModel, executable: ReferenceExecutable, chunk_tokens: int) -> None:
    assert_close(teacher_forced(executable, LIMITS, tiny.token_ids, chunk_tokens=chunk_tokens), tiny.logits)


def test_logits_are_those_of_transformers_among_other_sequences(
    tiny: TinyModel, executable: ReferenceExecutable
) -> None:
    ids = tiny.token_ids
    first = executable.logits(step(LIMITS, Part(3, 0, ids[::-1]), Part(1, 0, ids[:20]), Part(0, 0, ids[7:30])))
    second = executable.logits(step(LIMITS, Part(0, 23, ids[:2]), Part(1, 20, ids[20:]), Part(2, 0, ids[5:])))

    assert_close(np.concatenate([first[48:68], second[2:30]]), tiny.logits)


def without_scaling(config: ModelConfig) -> ModelConfig:
    return replace(config, rope_scaling=None)


@pytest.mark.parametrize(
    ("name", "ignoring"),
    [
        ("llama-linear", without_scaling),
        ("llama-dynamic", without_scaling),
        ("llama-llama3", without_scaling),
        ("qwen3-yarn", without_scaling),
        ("llama-yarn-mscale", without_scaling),
        ("llama", lambda config: replace(config, rope_theta=1e5)),
        ("qwen2-window", lambda config: replace(config, sliding_window=None)),
        ("qwen2-window", lambda config: replace(config, num_full_attention_layers=0)),
        ("llama-tied-biased", lambda config: replace(config, rms_norm_eps=1e-5)),
        ("llama-tied-biased", lambda config: replace(config, output_bias=False)),
        ("qwen2", lambda config: replace(config, qkv_bias=False)),
        ("qwen3", lambda config: replace(config, qk_norm=False)),
    ],
)
def test_the_expected_values_notice_a_setting_that_is_ignored(
    name: str, ignoring: Callable[[ModelConfig], ModelConfig]
) -> None:
    tiny = TinyModel.read(name)
    checkpoint = open_checkpoint(str(tiny.directory))
    executable = load(checkpoint, ignoring(config_of(checkpoint, tiny)))

    logits = teacher_forced(executable, LIMITS, tiny.token_ids, chunk_tokens=48)
    assert np.abs(logits - tiny.logits).max() > 10 * TOLERANCE
