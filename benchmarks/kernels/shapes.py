"""The models whose shapes are measured, with random weights: figures depend on sizes and formats, not on values."""

from dataclasses import dataclass

import numpy as np

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import GROUP, PackedTensor, from_float32

__all__ = ["MODELS", "Model"]

MODELS = {
    "smollm2-135m": ModelConfig(
        architecture="llama",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        max_model_tokens=8192,
        rms_norm_eps=1e-5,
        rope_theta=1e5,
        tie_word_embeddings=True,
    ),
    "r1-distill-qwen-1.5b": ModelConfig(
        architecture="qwen2",
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_layers=28,
        num_heads=12,
        num_kv_heads=2,
        head_dim=128,
        max_model_tokens=8192,
        rms_norm_eps=1e-6,
        rope_theta=1e4,
        qkv_bias=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Model:
    config: ModelConfig
    weights: dict[str, PackedTensor]

    @classmethod
    def random(cls, config: ModelConfig) -> "Model":
        return cls(config, _random_weights(config))


def _random_weights(config: ModelConfig) -> dict[str, PackedTensor]:
    """int4 matrices, int8 embedding and head, float vectors: the formats of the default model."""
    rng = np.random.default_rng(0)
    weights = {}
    for name, weight in build_program(config).weights.items():
        if len(weight.shape) == 1:
            weights[name] = from_float32(np.ones(weight.shape, np.float32))
        elif name in ("embed", "head"):
            weights[name] = _random_int8(rng, *weight.shape)
        else:
            weights[name] = _random_int4(rng, *weight.shape)
    return weights


def _random_int4(rng: np.random.Generator, outputs: int, inputs: int) -> PackedTensor:
    groups = inputs // GROUP
    codes = rng.integers(0, 256, (outputs, groups, GROUP // 2), np.uint8)
    scale = np.float16(0.2 * inputs**-0.5)  # codes have a deviation of 4.6: activations stay near one
    scales = np.full((outputs, groups), scale)
    return PackedTensor((outputs, inputs), "q4", codes, scales, scales * np.float16(-7.5))


def _random_int8(rng: np.random.Generator, outputs: int, inputs: int) -> PackedTensor:
    codes = rng.integers(-127, 128, (outputs, inputs // GROUP, GROUP), np.int8)
    return PackedTensor((outputs, inputs), "q8", codes, np.full((outputs, inputs // GROUP), np.float16(0.01)))
