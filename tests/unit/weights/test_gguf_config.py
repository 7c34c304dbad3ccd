"""GGUF metadata as a model config: the three architectures, their rope, and what is refused."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import Architecture, ModelConfig, RopeScaling
from tailrace.weights.gguf_checkpoint import open_gguf
from tests.unit.weights.model_files import TINY, write_gguf


def config_of(path: Path, config: ModelConfig = TINY, **metadata: Any) -> ModelConfig:
    write_gguf(path, config, metadata={key.replace("__", "."): value for key, value in metadata.items()})
    return open_gguf(path).config


def rope_of(path: Path, **scaling: Any) -> RopeScaling | None:
    return config_of(path, **{f"llama__rope__scaling__{key}": value for key, value in scaling.items()}).rope_scaling


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def same_floats(config: ModelConfig) -> ModelConfig:
    """GGUF holds float32."""
    return dataclasses.replace(config, rms_norm_eps=float(np.float32(config.rms_norm_eps)))


def test_llama_has_neighbouring_pairs(path: Path) -> None:
    assert config_of(path) == same_floats(dataclasses.replace(TINY, rope_interleaved=True))


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_qwen_has_halved_pairs(path: Path, architecture: Architecture) -> None:
    is_second = architecture == "qwen2"
    config = dataclasses.replace(TINY, architecture=architecture, qkv_bias=is_second, qk_norm=not is_second)
    assert config_of(path, config) == same_floats(config)


def test_biases_and_a_tied_head_are_seen_in_the_tensors(path: Path) -> None:
    config = dataclasses.replace(TINY, qkv_bias=True, output_bias=True, tie_word_embeddings=True)
    found = config_of(path, config)
    assert (found.qkv_bias, found.output_bias, found.qk_norm, found.tie_word_embeddings) == (True, True, False, True)


def test_what_a_file_leaves_out_follows_from_the_rest(path: Path) -> None:
    found = config_of(
        path,
        dataclasses.replace(TINY, num_kv_heads=4),
        llama__attention__key_length=None,
        llama__attention__head_count_kv=None,
        llama__rope__freq_base=None,
    )
    assert (found.head_dim, found.num_kv_heads, found.rope_theta) == (16, 4, 10000.0)


def test_a_part_of_the_head_may_turn(path: Path) -> None:
    assert config_of(path, llama__rope__dimension_count=8).rotary_dim == 8
    assert config_of(path, llama__rope__dimension_count=16).rotary_dim is None


@pytest.mark.parametrize(("window", "used"), [(32, 32), (0, None), (128, None), (4096, None)])
def test_a_window_as_long_as_the_context_is_none(path: Path, window: int, used: int | None) -> None:
    assert config_of(path, llama__attention__sliding_window=window).sliding_window == used


def test_rope_is_plain_unless_told_otherwise(path: Path) -> None:
    assert rope_of(path) is None
    assert rope_of(path, type="none", factor=4.0) is None
    assert rope_of(path, type="linear", factor=1.0) is None


def test_linear_scaling_in_both_spellings(path: Path) -> None:
    assert rope_of(path, type="linear", factor=4.0) == RopeScaling("linear", factor=4.0)
    assert config_of(path, llama__rope__scale_linear=2.0).rope_scaling == RopeScaling("linear", factor=2.0)


def test_yarn_scaling(path: Path) -> None:
    plain = rope_of(path, type="yarn", factor=4.0, original_context_length=32)
    assert plain == RopeScaling("yarn", factor=4.0, original_max_tokens=32)
    full = rope_of(path, type="yarn", factor=4.0, yarn_beta_fast=16.0, yarn_beta_slow=2.0, attn_factor=0.5)
    assert full is not None
    assert (full.original_max_tokens, full.beta_fast, full.beta_slow) == (128, 16.0, 2.0)
    assert full.attention_factor == pytest.approx(0.5 * (0.1 * np.log(4.0) + 1))


def test_rope_factors_are_a_tensor(path: Path) -> None:
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    write_gguf(path, extra={"rope_freqs.weight": factors})
    assert open_gguf(path).config.rope_scaling == RopeScaling("factors", factors=tuple(factors.tolist()))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_rope_factors_must_be_positive(path: Path, bad: float) -> None:
    write_gguf(path, extra={"rope_freqs.weight": np.array([1, bad, 1, 1, 1, 1, 1, 1], np.float32)})
    with pytest.raises(CheckpointError, match=r"'rope_freqs\.weight' must hold positive divisors"):
        open_gguf(path)


@pytest.mark.parametrize("name", ["gemma3", "deepseek2-ocr", "clip"])
def test_another_architecture_is_named_with_those_we_know(path: Path, name: str) -> None:
    with pytest.raises(UnsupportedModel, match=rf"model\.gguf: architecture '{name}' .*: llama, qwen2, qwen3"):
        config_of(path, general__architecture=name)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"llama__expert_count": 8}, "mixture of experts"),
        ({"llama__attention__key_length": 16, "llama__attention__value_length": 32}, "keys and values differ"),
        ({"llama__attention__causal": False}, "attention that is not causal"),
        ({"llama__logit_scale": 8.0}, "logit_scale is not known in architecture 'llama'"),
        ({"llama__rope__scaling__type": "longrope"}, "rope scaling 'longrope'"),
    ],
)
def test_features_that_would_change_the_answer_are_refused(path: Path, metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        config_of(path, **metadata)


def test_factors_that_change_nothing_are_passed_over(path: Path) -> None:
    assert config_of(path, llama__logit_scale=1.0, llama__attention__clamp_kqv=0.0, llama__attention__value_length=16)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_qwen_without_its_own_tensors_is_refused(path: Path, architecture: Architecture) -> None:
    with pytest.raises(CheckpointError, match=r"tensor 'blk\.0\.attn_q(\.bias|_norm\.weight)' is missing"):
        config_of(path, dataclasses.replace(TINY, architecture=architecture))


def test_a_weight_without_a_place_is_refused(path: Path) -> None:
    write_gguf(path, extra={"blk.0.attn_sinks.weight": np.ones(4, np.float32)})
    with pytest.raises(UnsupportedModel, match=r"tensor 'blk\.0\.attn_sinks\.weight' has no place in a llama model"):
        open_gguf(path)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"llama__rope__dimension_count": 32}, "dimension_count is 32, it must be between 2 and 16"),
        ({"llama__block_count": None}, r"llama\.\*: block_count is missing"),
        ({"llama__block_count": 0}, "block_count is 0, it must be between 1 and"),
        ({"llama__block_count": 1 << 30}, "block_count is 1073741824, it must be between"),
        ({"llama__block_count": "two"}, "block_count is 'two', it must be an integer"),
        ({"llama__block_count": list(range(99))}, r"block_count is array\(.*\.\.\., it must be an integer"),
        ({"llama__block_count": ["two"] * 99}, "block_count is <99 strings>, it must be an integer"),
        ({"llama__block_count": 3}, r"tensor 'blk\.2\.attn_norm\.weight' is missing"),
        ({"llama__block_count": 1}, "tensor 'blk.1.* has no place"),
        ({"llama__embedding_length": 128}, r"shape \[48, 64\], the config asks for \[48, 128\]"),
        ({"llama__attention__head_count": 3}, "head_count_kv is 2, it must be a divisor of the 3 heads"),
        ({"llama__attention__head_count_kv": 8}, "head_count_kv is 8, it must be between 1 and 4"),
        ({"llama__attention__layer_norm_rms_epsilon": 0.0}, "epsilon is 0.0, it must be positive"),
        ({"llama__rope__freq_base": float("nan")}, "freq_base is nan, it must be a finite number"),
        ({"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": 0.0}, "factor is 0.0"),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(path: Path, metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises((CheckpointError, UnsupportedModel), match=reason) as caught:
        config_of(path, **metadata)
    assert "\n" not in str(caught.value)


def test_a_file_without_an_embedding_is_refused(path: Path) -> None:
    write_gguf(path)
    path.write_bytes(path.read_bytes().replace(b"token_embd.weight", b"token_embd.wrong_"))
    with pytest.raises(CheckpointError, match=r"tensor 'token_embd\.weight' is missing"):
        open_gguf(path)
