"""Tiny random models of every kind, from their Hugging Face directories to their logits, against transformers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.program import LatentAttention, SelectPositions
from tailrace.ops.reference import ReferenceBackend, ReferenceExecutable
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import TOLERANCE, TinyModel, greedy_models, tiny_models
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


def test_logits_are_those_of_transformers_behind_a_cached_prefix(
    tiny: TinyModel, executable: ReferenceExecutable
) -> None:
    """Another sequence begins with the same two blocks, and computes what follows them alone."""
    ids = tiny.token_ids
    executable.logits(step(LIMITS, Part(2, 0, ids[:40])))
    behind = step(LIMITS, Part(1, 32, ids[32:]))
    tables = behind.block_tables.copy()
    tables[1, :2] = tables[2, :2]

    assert_close(executable.logits(replace(behind, block_tables=tables)), tiny.logits[32:])


def without_scaling(config: ModelConfig) -> ModelConfig:
    return replace(config, rope_scaling=None)


def scaled_by(**changes: Any) -> Callable[[ModelConfig], ModelConfig]:
    def ignoring(config: ModelConfig) -> ModelConfig:
        assert config.rope_scaling is not None
        return replace(config, rope_scaling=replace(config.rope_scaling, **changes))

    return ignoring


def routed(**changes: Any) -> Callable[[ModelConfig], ModelConfig]:
    def ignoring(config: ModelConfig) -> ModelConfig:
        assert config.mixture is not None
        mixture = replace(config.mixture, routing=replace(config.mixture.routing, **changes))
        return replace(config, mixture=mixture)

    return ignoring


def without_bias(config: ModelConfig) -> ModelConfig:
    assert config.mixture is not None
    return replace(config, mixture=replace(config.mixture, has_bias=False))


def without_shared(config: ModelConfig) -> ModelConfig:
    assert config.mixture is not None
    return replace(config, mixture=replace(config.mixture, num_shared=0))


def selecting(top_k: int) -> Callable[[ModelConfig], ModelConfig]:
    def ignoring(config: ModelConfig) -> ModelConfig:
        assert config.sparse is not None
        return replace(config, sparse=replace(config.sparse, top_k=top_k))

    return ignoring


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
        ("mistral-window", lambda config: replace(config, sliding_window=8)),
        ("deepseek-moe", without_shared),
        ("deepseek-moe", routed(normalize=True)),
        ("deepseek-moe", routed(top_k=2)),
        ("deepseek-v2-lite", without_scaling),
        ("deepseek-v2-lite", scaled_by(mscale_all_dim=0.0)),
        ("deepseek-v2", scaled_by(mscale=0.707)),
        ("deepseek-v2", scaled_by(mscale_all_dim=1.0)),
        ("deepseek-v2", routed(num_groups=1, top_groups=1)),
        ("deepseek-v2", routed(group_rank="top two")),
        ("deepseek-v2", routed(scale=1.0)),
        ("deepseek-v2", routed(normalize=True)),
        ("deepseek-v3", routed(scoring="softmax")),
        ("deepseek-v3", routed(num_groups=1, top_groups=1)),
        ("deepseek-v3", routed(group_rank="max")),
        ("deepseek-v3", routed(normalize=False)),
        ("deepseek-v3", without_bias),
        ("deepseek-v3", lambda config: replace(config, rope_interleaved=False)),
        ("deepseek-v3-halves", lambda config: replace(config, rope_interleaved=True)),
        ("deepseek-v3-halves", routed(normalize=True)),
        ("deepseek-v32", lambda config: replace(config, sparse=None)),
        ("deepseek-v32", selecting(top_k=11)),
    ],
)
def test_the_expected_values_notice_a_setting_that_is_ignored(
    name: str, ignoring: Callable[[ModelConfig], ModelConfig]
) -> None:
    tiny = TinyModel.read(name)
    checkpoint = open_checkpoint(str(tiny.directory))
    assert_far(load(checkpoint, ignoring(config_of(checkpoint, tiny))), tiny)


@pytest.mark.parametrize("name", greedy_models()[1:])
def test_latents_are_normed_with_an_epsilon_of_their_own(name: str) -> None:
    """With the config's, as every other norm has it, the values would be others."""
    tiny = TinyModel.read(name)
    checkpoint = open_checkpoint(str(tiny.directory))
    program = build_program(checkpoint.config)
    latents = [op for op in program.ops if isinstance(op, LatentAttention)]
    assert {op.eps for op in latents} == {1e-6} != {checkpoint.config.rms_norm_eps}
    normed = tuple(
        replace(op, eps=checkpoint.config.rms_norm_eps) if isinstance(op, LatentAttention) else op for op in program.ops
    )
    assert_far(ReferenceBackend().load(replace(program, ops=normed), checkpoint.tensors, LIMITS), tiny)


def test_an_index_turns_by_the_factor_of_cos_and_sin_too() -> None:
    """Only the first part of a key turns, so what is selected depends on it."""
    tiny = TinyModel.read("deepseek-v32")
    checkpoint = open_checkpoint(str(tiny.directory))
    program = build_program(checkpoint.config)
    (scale,) = {op.rope.scale for op in program.ops if isinstance(op, SelectPositions)}
    assert scale > 1
    unscaled = tuple(
        replace(op, rope=replace(op.rope, scale=1.0)) if isinstance(op, SelectPositions) else op for op in program.ops
    )
    assert_far(ReferenceBackend().load(replace(program, ops=unscaled), checkpoint.tensors, LIMITS), tiny)


def assert_far(executable: ReferenceExecutable, tiny: TinyModel) -> None:
    logits = teacher_forced(executable, LIMITS, tiny.token_ids, chunk_tokens=48)
    assert np.abs(logits - tiny.logits).max() > 10 * TOLERANCE
