"""Tiny random models for tests of back ends: every feature a config can ask for, shapes that fit no tile."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, RopeScaling, SparseConfig
from tailrace.models.registry import build_program
from tailrace.ops.packed import GROUP, PackedTensor, from_float32
from tailrace.ops.program import Routing

__all__ = ["CONFIGS", "DEEPSEEK_CONFIGS", "Pack", "bfloat16", "float16", "random_ids", "random_weights"]

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

_LATENT = replace(
    _PLAIN,
    architecture="deepseek_v2",
    num_kv_heads=4,
    head_dim=48,
    rope_interleaved=True,
    latent=LatentConfig(latent_dim=64, plain_dim=32, rope_dim=16, value_dim=32),
)
_SOFTMAX = MixtureConfig(Routing(10, 3, "softmax"), expert_size=32, num_shared=2, first_layer=1)
_GROUPED_SOFTMAX = MixtureConfig(Routing(12, 3, "softmax", num_groups=4, top_groups=2, scale=4.0), expert_size=29)
_SIGMOID = MixtureConfig(
    Routing(16, 4, "sigmoid", num_groups=4, top_groups=2, group_rank="top two", normalize=True, scale=2.5),
    expert_size=32,
    num_shared=1,
    first_layer=1,
    has_bias=True,
)
_V3 = replace(
    _LATENT,
    architecture="deepseek_v3",
    num_layers=3,
    latent=LatentConfig(latent_dim=64, plain_dim=32, rope_dim=16, value_dim=32, query_latent_dim=96),
    rope_scaling=RopeScaling("yarn", factor=8.0, original_max_tokens=24, mscale=1.0, mscale_all_dim=1.0),
    mixture=_SIGMOID,
)
# Without "odd" in the name, every matrix has inputs that fill whole groups, so that all can be packed.
DEEPSEEK_CONFIGS = {
    "latent": _LATENT,
    "latent, odd sizes": replace(
        _LATENT,
        hidden_size=50,
        intermediate_size=45,
        num_heads=3,
        head_dim=19,
        latent=LatentConfig(latent_dim=27, plain_dim=13, rope_dim=6, value_dim=11, query_latent_dim=21),
    ),
    "experts": replace(_PLAIN, architecture="deepseek", mixture=_SOFTMAX),
    "experts, grouped, odd sizes": replace(_LATENT, hidden_size=50, intermediate_size=45, mixture=_GROUPED_SOFTMAX),
    "experts, grouped with a bias": replace(_PLAIN, architecture="deepseek", mixture=_SIGMOID),
    "latent and experts": _V3,
    "sparse": replace(_V3, architecture="deepseek_v32", sparse=SparseConfig(num_heads=32, head_dim=40, top_k=20)),
}


def random_weights(config: ModelConfig, pack: Pack = from_float32) -> dict[str, PackedTensor]:
    """Weights of a size that keeps activations near one; matrices whose inputs fill whole groups are packed.

    Routers stay as they are, as in every checkpoint.
    """
    rng = np.random.default_rng(0)
    weights = {}
    for name, weight in build_program(config).weights.items():
        if len(weight.shape) == 1:
            weights[name] = from_float32(1 + rng.normal(scale=0.3, size=weight.shape).astype(np.float32))
            continue
        values = rng.normal(scale=weight.shape[1] ** -0.5, size=weight.shape).astype(np.float32)
        is_packed = weight.shape[1] % GROUP == 0 and not name.endswith((".router", ".index.weights"))
        weights[name] = pack(values) if is_packed else from_float32(values)
    return weights


def random_ids(config: ModelConfig, count: int, seed: int = 1) -> list[int]:
    ids: list[int] = np.random.default_rng(seed).integers(0, config.vocab_size, count).tolist()
    return ids


def float16(values: NDArray[np.float32]) -> PackedTensor:
    return PackedTensor(values.shape, "f16", values.astype(np.float16))


def bfloat16(values: NDArray[np.float32]) -> PackedTensor:
    return PackedTensor(values.shape, "bf16", (values.view(np.uint32) >> 16).astype(np.uint16))
