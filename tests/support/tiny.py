"""Tiny random models for tests of back ends: every feature a config can ask for, shapes that fit no tile."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import GROUP, PackedTensor, from_float32

__all__ = ["CONFIGS", "Pack", "bfloat16", "float16", "random_ids", "random_weights"]

Pack = Callable[[NDArray[np.float32]], PackedTensor]

_PLAIN = ModelConfig(
    architecture="llama",
    vocab_size=77,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    max_model_tokens=192,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
)
CONFIGS = {
    "plain": _PLAIN,
    "tied, interleaved": replace(_PLAIN, tie_word_embeddings=True, rope_interleaved=True),
    "biased, odd sizes": replace(_PLAIN, qkv_bias=True, output_bias=True, hidden_size=50, intermediate_size=45),
    "normed, three to a head": replace(_PLAIN, qk_norm=True, num_heads=6, num_kv_heads=2, head_dim=24),
    "windowed, half turned": replace(_PLAIN, sliding_window=20, num_full_attention_layers=1, rotary_dim=8),
    "wide heads": replace(_PLAIN, num_heads=2, num_kv_heads=1, head_dim=128),
}


def random_weights(config: ModelConfig, pack: Pack = from_float32) -> dict[str, PackedTensor]:
    """Weights of a size that keeps activations near one; matrices whose inputs fill whole groups are packed."""
    rng = np.random.default_rng(0)
    weights = {}
    for name, weight in build_program(config).weights.items():
        if len(weight.shape) == 1:
            weights[name] = from_float32(1 + rng.normal(scale=0.3, size=weight.shape).astype(np.float32))
            continue
        values = rng.normal(scale=weight.shape[1] ** -0.5, size=weight.shape).astype(np.float32)
        weights[name] = pack(values) if weight.shape[1] % GROUP == 0 else from_float32(values)
    return weights


def random_ids(config: ModelConfig, count: int, seed: int = 1) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(0, config.vocab_size, count).tolist()
    return ids


def float16(values: NDArray[np.float32]) -> PackedTensor:
    return PackedTensor(values.shape, "f16", values.astype(np.float16))


def bfloat16(values: NDArray[np.float32]) -> PackedTensor:
    return PackedTensor(values.shape, "bf16", (values.view(np.uint32) >> 16).astype(np.uint16))
