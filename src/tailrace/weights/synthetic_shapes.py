"""Shapes of published models, to be filled with random weights: what they cost can be measured without having them."""

from collections.abc import Mapping
from typing import Any

from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, RopeScaling
from tailrace.ops.program import Routing

__all__ = ["SHAPES"]


def _shape(
    *, sizes: tuple[int, int, int], heads: tuple[int, int], vocabulary: int, tokens: int, **more: Any
) -> ModelConfig:
    """A Llama, unless `more` says otherwise. `sizes`: hidden, MLP, layers. `heads`: of queries, of keys and values."""
    settings: dict[str, Any] = {
        "architecture": "llama",
        "hidden_size": sizes[0],
        "intermediate_size": sizes[1],
        "num_layers": sizes[2],
        "num_heads": heads[0],
        "num_kv_heads": heads[1],
        "vocab_size": vocabulary,
        "max_model_tokens": tokens,
        "head_dim": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "rope_interleaved": more.get("architecture") not in ("qwen2", "qwen3"),  # as GGUF files have it
    }
    return ModelConfig(**(settings | more))


def _qwen2(*, sizes: tuple[int, int, int], heads: tuple[int, int], vocabulary: int) -> ModelConfig:
    return _shape(sizes=sizes, heads=heads, vocabulary=vocabulary, tokens=131072, architecture="qwen2", qkv_bias=True)


def _v2_yarn(factor: float, original_max_tokens: int) -> RopeScaling:
    return RopeScaling(
        "yarn", factor=factor, original_max_tokens=original_max_tokens, mscale=0.707, mscale_all_dim=0.707
    )


_MIXTURE_16B = MixtureConfig(Routing(64, 6, "softmax"), expert_size=1408, num_shared=2, first_layer=1)

SHAPES: Mapping[str, ModelConfig] = {
    "deepseek-v2-lite": _shape(
        sizes=(2048, 10944, 27),
        heads=(16, 16),
        vocabulary=102400,
        tokens=163840,
        architecture="deepseek_v2",
        head_dim=192,
        rope_scaling=_v2_yarn(40.0, 4096),
        latent=LatentConfig(latent_dim=512, plain_dim=128, rope_dim=64, value_dim=128),
        mixture=_MIXTURE_16B,
    ),
    "deepseek-moe-16b": _shape(
        sizes=(2048, 10944, 28),
        heads=(16, 16),
        vocabulary=102400,
        tokens=4096,
        architecture="deepseek",
        mixture=_MIXTURE_16B,
    ),
    "deepseek-llm-7b": _shape(sizes=(4096, 11008, 30), heads=(32, 32), vocabulary=102400, tokens=4096),
    "deepseek-coder-1.3b": _shape(
        sizes=(2048, 5504, 24),
        heads=(16, 16),
        vocabulary=32256,
        tokens=16384,
        rope_theta=1e5,
        rope_scaling=RopeScaling("linear", factor=4.0),
    ),
    "r1-distill-qwen-1.5b": _qwen2(sizes=(1536, 8960, 28), heads=(12, 2), vocabulary=151936),
    "r1-distill-qwen-7b": _qwen2(sizes=(3584, 18944, 28), heads=(28, 4), vocabulary=152064),
    "r1-distill-llama-8b": _shape(
        sizes=(4096, 14336, 32),
        heads=(32, 8),
        vocabulary=128256,
        tokens=131072,
        rms_norm_eps=1e-5,
        rope_theta=5e5,
        rope_scaling=RopeScaling("llama3", factor=8.0, original_max_tokens=8192, high_freq_factor=4.0),
    ),
    # The parts of V2-Lite and as many layers, for that is how llama.cpp knows a Lite; all else is tiny.
    "toy-v2-lite": _shape(
        sizes=(256, 512, 27),
        heads=(4, 4),
        vocabulary=1024,
        tokens=4096,
        architecture="deepseek_v2",
        head_dim=64,
        rope_scaling=_v2_yarn(4.0, 1024),
        latent=LatentConfig(latent_dim=64, plain_dim=32, rope_dim=32, value_dim=32),
        mixture=MixtureConfig(Routing(16, 4, "softmax"), expert_size=64, num_shared=2, first_layer=1),
    ),
}
