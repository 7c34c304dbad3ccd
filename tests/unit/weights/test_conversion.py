"""One model in both kinds of file computes the same logits: Llama's permuted rows in GGUF are understood."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.config import Architecture, ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.load import load_backend
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.names import tensor_class
from tests.support.steps import limits, teacher_forced
from tests.unit.weights.deepseek_files import DEEPSEEK, deepseek_values, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import TINY, random_weights, write_directory, write_gguf

IDS = [1, 17, 40, 3, 3, 29, 8, 11]


def logits(checkpoint: Checkpoint) -> NDArray[np.float32]:
    of = limits()
    executable = load_backend("reference").load(build_program(checkpoint.config), checkpoint.tensors, of)
    return teacher_forced(executable, of, IDS, chunk_tokens=len(IDS))


def permuted(values: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """As converters write q and k of a Llama: the halves of each head interleaved."""
    halves = values.reshape(num_heads, 2, -1, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def as_converted(config: ModelConfig) -> dict[str, NDArray[np.float32]]:
    """Rows of q and k, and their biases, in GGUF's order."""
    heads = {"q": config.num_heads, "k": config.num_kv_heads}
    return {
        name: permuted(values, heads[tensor_class(name).removesuffix(".bias")])
        for name, values in random_weights(config).items()
        if tensor_class(name).removesuffix(".bias") in heads
    }


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_converted_llama_is_the_same_model(tmp_path: Path, has_bias: bool) -> None:
    config = dataclasses.replace(TINY, qkv_bias=has_bias, output_bias=has_bias)
    write_directory(tmp_path / "tiny", config, settings={"attention_bias": has_bias})
    write_gguf(tmp_path / "tiny.gguf", config, raw=as_converted(config))
    expected = logits(open_directory(tmp_path / "tiny"))
    np.testing.assert_allclose(logits(open_gguf(tmp_path / "tiny.gguf")), expected, atol=1e-4)
    write_gguf(tmp_path / "plain.gguf", config)
    assert np.abs(logits(open_gguf(tmp_path / "plain.gguf")) - expected).max() > 0.1


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_a_converted_qwen_is_the_same_model(tmp_path: Path, architecture: Architecture) -> None:
    is_second = architecture == "qwen2"
    config = dataclasses.replace(TINY, architecture=architecture, qkv_bias=is_second, qk_norm=not is_second)
    write_directory(tmp_path / "tiny", config)
    write_gguf(tmp_path / "tiny.gguf", config)
    np.testing.assert_allclose(
        logits(open_gguf(tmp_path / "tiny.gguf")), logits(open_directory(tmp_path / "tiny")), atol=1e-4
    )


def test_a_converted_moe_16b_is_the_same_model(tmp_path: Path) -> None:
    config = DEEPSEEK["MoE-16B"]
    write_deepseek(tmp_path / "tiny", config)
    heads = {"q": config.num_heads, "k": config.num_kv_heads}
    values = deepseek_values(config)
    turned = {name: permuted(values[name], heads[name[-1]]) for name in values if tensor_class(name) in heads}
    write_deepseek_gguf(tmp_path / "tiny.gguf", config, raw=turned)
    expected = logits(open_directory(tmp_path / "tiny"))
    np.testing.assert_allclose(logits(open_gguf(tmp_path / "tiny.gguf")), expected, rtol=1e-4, atol=1e-4)
    write_deepseek_gguf(tmp_path / "plain.gguf", config)
    assert np.abs(logits(open_gguf(tmp_path / "plain.gguf")) - expected).max() > 0.1


def test_llama3_frequencies_and_the_factors_made_of_them_are_the_same(tmp_path: Path) -> None:
    block = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    write_directory(tmp_path / "tiny", settings={"rope_scaling": {"rope_type": "llama3"} | block})
    plain = TINY.rope_theta ** (-np.arange(8) / 8)
    turns = 16 * plain / (2 * np.pi)
    share = np.clip((turns - 1) / (4 - 1), 0, 1)
    factors = (1 / (share + (1 - share) / 8)).astype(np.float32)
    write_gguf(tmp_path / "tiny.gguf", raw=as_converted(TINY), extra={"rope_freqs.weight": factors})
    np.testing.assert_allclose(
        logits(open_gguf(tmp_path / "tiny.gguf")), logits(open_directory(tmp_path / "tiny")), atol=1e-4
    )
