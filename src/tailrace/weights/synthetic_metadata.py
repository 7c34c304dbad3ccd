"""What a GGUF file says of a model besides its weights: a config in the words that llama.cpp reads."""

from collections.abc import Iterator
from typing import Any

from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, RopeScaling
from tailrace.weights.checkpoint import GgufVocabulary

__all__ = ["GGUF_SCALINGS", "gguf_architecture", "gguf_metadata"]

GGUF_SCALINGS = frozenset({"linear", "yarn"})  # rotary scalings of which the metadata speaks
_NAMES = {"deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2"}  # the others are called as with us
_GATING = {"softmax": 1, "sigmoid": 2}
_QUANTIZATION_VERSION = 2


def gguf_architecture(config: ModelConfig) -> str:
    return _NAMES.get(config.architecture, config.architecture)


def gguf_metadata(config: ModelConfig, vocabulary: GgufVocabulary, *, bos_id: int, eos_id: int) -> dict[str, Any]:
    """All entries but the architecture itself: integers, numbers, flags, texts and lists."""
    prefix = gguf_architecture(config)
    return {
        "general.quantization_version": _QUANTIZATION_VERSION,
        **{f"{prefix}.{key}": value for key, value in _model(config)},
        "tokenizer.ggml.model": vocabulary.model,
        "tokenizer.ggml.pre": vocabulary.pre,
        "tokenizer.ggml.tokens": list(vocabulary.tokens),
        "tokenizer.ggml.token_type": list(vocabulary.token_types),
        "tokenizer.ggml.merges": list(vocabulary.merges),
        "tokenizer.ggml.bos_token_id": bos_id,
        "tokenizer.ggml.eos_token_id": eos_id,
        "tokenizer.ggml.add_bos_token": False,  # a prompt has as many tokens as it was written with
    }


def _model(config: ModelConfig) -> Iterator[tuple[str, Any]]:
    yield "vocab_size", config.vocab_size
    yield "context_length", config.max_model_tokens
    yield "embedding_length", config.hidden_size
    yield "feed_forward_length", config.intermediate_size
    yield "block_count", config.num_layers
    yield "attention.head_count", config.num_heads
    yield "attention.layer_norm_rms_epsilon", config.rms_norm_eps
    yield "rope.freq_base", config.rope_theta
    yield from _grouped_heads(config) if config.latent is None else _latent_heads(config.latent)
    if config.mixture is not None:
        yield from _mixture(config.mixture)
    if config.rope_scaling is not None:
        yield from _scaling(config.rope_scaling)


def _grouped_heads(config: ModelConfig) -> Iterator[tuple[str, Any]]:
    yield "attention.head_count_kv", config.num_kv_heads
    yield "attention.key_length", config.head_dim
    yield "attention.value_length", config.head_dim
    yield "rope.dimension_count", config.rotary_dim or config.head_dim


def _latent_heads(latent: LatentConfig) -> Iterator[tuple[str, Any]]:
    """Keys and values as they are cached, one for all heads; `_mla` are those of a head."""
    yield "attention.head_count_kv", 1
    yield "attention.key_length", latent.latent_dim + latent.rope_dim
    yield "attention.value_length", latent.latent_dim
    yield "attention.key_length_mla", latent.plain_dim + latent.rope_dim
    yield "attention.value_length_mla", latent.value_dim
    yield "attention.kv_lora_rank", latent.latent_dim
    yield "rope.dimension_count", latent.rope_dim
    if latent.query_latent_dim is not None:
        yield "attention.q_lora_rank", latent.query_latent_dim


def _mixture(mixture: MixtureConfig) -> Iterator[tuple[str, Any]]:
    routing = mixture.routing
    yield "leading_dense_block_count", mixture.first_layer
    yield "expert_feed_forward_length", mixture.expert_size
    yield "expert_shared_count", mixture.num_shared
    yield "expert_count", routing.num_experts
    yield "expert_used_count", routing.top_k
    yield "expert_gating_func", _GATING[routing.scoring]
    yield "expert_weights_norm", routing.normalize
    yield "expert_weights_scale", routing.scale
    if routing.num_groups > 1:
        yield "expert_group_count", routing.num_groups
        yield "expert_group_used_count", routing.top_groups


def _scaling(scaling: RopeScaling) -> Iterator[tuple[str, Any]]:
    if scaling.kind not in GGUF_SCALINGS:
        return  # a tensor holds what frequencies are divided by
    yield "rope.scaling.type", scaling.kind
    yield "rope.scaling.factor", scaling.factor
    if scaling.kind == "yarn":
        yield "rope.scaling.original_context_length", scaling.original_max_tokens
    if scaling.mscale_all_dim:
        yield "rope.scaling.yarn_log_multiplier", 0.1 * scaling.mscale_all_dim
