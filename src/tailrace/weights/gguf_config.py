"""GGUF metadata as a ModelConfig, for the architectures that are Llama but for their settings."""

import math
from collections.abc import Mapping

import numpy as np

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import Architecture, ModelConfig, RopeScaling
from tailrace.weights.fields import Fields
from tailrace.weights.gguf import GgufFile
from tailrace.weights.gguf_blocks import GgufTensor
from tailrace.weights.names import GGUF_NAMES

__all__ = ["ROPE_FACTORS", "read_config"]

_KNOWN: Mapping[str, Architecture] = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
ROPE_FACTORS = "rope_freqs.weight"
_MAX_LAYERS = 1024

# Keys of architectures that resemble ours; a file that uses one computes something else.
_UNKNOWN_FACTORS = (
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "embedding_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "rope.scaling.yarn_ext_factor",
)


def read_config(gguf: GgufFile) -> ModelConfig:
    """Raises UnsupportedModel for an architecture or feature not known here, CheckpointError for wrong values."""
    metadata = Fields(str(gguf.file.path), gguf.metadata)
    architecture = _architecture(metadata)
    fields = _without_prefix(metadata, architecture)
    _refuse_unknown_features(fields, architecture)
    num_heads = fields.integer("attention.head_count", high=4096)
    hidden_size = fields.integer("embedding_length")
    head_dim = fields.integer("attention.key_length", max(1, hidden_size // num_heads))
    rotary_dim = fields.integer("rope.dimension_count", head_dim, low=2, high=head_dim)
    max_model_tokens = fields.integer("context_length")
    config = ModelConfig(
        architecture=architecture,
        vocab_size=_vocab_size(gguf),
        hidden_size=hidden_size,
        intermediate_size=fields.integer("feed_forward_length"),
        num_layers=fields.integer("block_count", high=_MAX_LAYERS),
        num_heads=num_heads,
        num_kv_heads=fields.integer("attention.head_count_kv", num_heads, high=num_heads),
        head_dim=head_dim,
        max_model_tokens=max_model_tokens,
        rms_norm_eps=fields.positive("attention.layer_norm_rms_epsilon"),
        rope_theta=fields.positive("rope.freq_base", 10000.0),
        rope_scaling=_rope_scaling(gguf, fields, max_model_tokens),
        rope_interleaved=architecture == "llama",  # the converters permute the rows of q and k for llama alone
        rotary_dim=None if rotary_dim == head_dim else rotary_dim,
        tie_word_embeddings=GGUF_NAMES["head"] not in gguf.tensors,
        qkv_bias=architecture == "qwen2" or "blk.0.attn_q.bias" in gguf.tensors,
        output_bias="blk.0.attn_output.bias" in gguf.tensors,
        qk_norm=architecture == "qwen3",
        sliding_window=_sliding_window(fields, max_model_tokens),
    )
    if config.num_heads % config.num_kv_heads:
        raise fields.wrong("attention.head_count_kv", f"a divisor of the {config.num_heads} heads")
    return config


def _architecture(metadata: Fields) -> Architecture:
    name = metadata.text("general.architecture")
    known = _KNOWN.get(name)
    if known is None:
        raise UnsupportedModel(
            f"{metadata.source}: architecture {name!r} is not supported; supported: {', '.join(_KNOWN)}"
        )
    return known


def _without_prefix(metadata: Fields, architecture: str) -> Fields:
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.values.items() if key.startswith(prefix)}
    return Fields(f"{metadata.source}: {prefix}*", own)


def _refuse_unknown_features(fields: Fields, architecture: str) -> None:
    for key in _UNKNOWN_FACTORS:
        if fields.number(key, 0.0) not in (0.0, 1.0):
            raise UnsupportedModel(f"{fields.source}: {key} is not known in architecture {architecture!r}")
    if fields.integer("expert_count", 0, low=0):
        raise UnsupportedModel(f"{fields.source}: a mixture of experts in architecture {architecture!r}")
    if not fields.flag("attention.causal", True):
        raise UnsupportedModel(f"{fields.source}: attention that is not causal")
    key_length, value_length = "attention.key_length", "attention.value_length"
    if fields.has(value_length) and fields.values.get(key_length) not in (None, fields.integer(value_length)):
        raise UnsupportedModel(f"{fields.source}: heads whose keys and values differ in size")


def _vocab_size(gguf: GgufFile) -> int:
    """The rows of the embedding: files pad it beyond the tokens they list."""
    table = gguf.tensors.get(GGUF_NAMES["embed"])
    if table is None:
        raise CheckpointError(f"{gguf.file.path}: tensor {GGUF_NAMES['embed']!r} is missing")
    return table.shape[0]


def _sliding_window(fields: Fields, max_model_tokens: int) -> int | None:
    window = fields.integer("attention.sliding_window", 0, low=0)
    return window if 0 < window < max_model_tokens else None


def _rope_scaling(gguf: GgufFile, fields: Fields, max_model_tokens: int) -> RopeScaling | None:
    if ROPE_FACTORS in gguf.tensors:
        return RopeScaling("factors", factors=_rope_factors(gguf))
    kind = fields.text("rope.scaling.type", "linear" if fields.has("rope.scale_linear") else "none")
    factor = fields.positive("rope.scaling.factor", fields.positive("rope.scale_linear", 1.0))
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return None
    if kind == "linear":
        return RopeScaling("linear", factor=factor)
    if kind == "yarn":
        return _yarn(fields, factor, max_model_tokens)
    raise UnsupportedModel(f"{fields.source}: rope scaling {kind!r}; supported: none, linear, yarn, rope_freqs.weight")


def _yarn(fields: Fields, factor: float, max_model_tokens: int) -> RopeScaling:
    attention = fields.positive("rope.scaling.attn_factor", 1.0) * fields.positive("rope.scaling.yarn_attn_factor", 1.0)
    return RopeScaling(
        "yarn",
        factor=factor,
        original_max_tokens=fields.integer("rope.scaling.original_context_length", max_model_tokens),
        beta_fast=fields.positive("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.positive("rope.scaling.yarn_beta_slow", 1.0),
        # GGUF's factor comes on top of the usual magnitude, ours replaces it.
        attention_factor=None if attention == 1.0 else attention * (0.1 * math.log(max(factor, 1.0)) + 1.0),
    )


def _rope_factors(gguf: GgufFile) -> tuple[float, ...]:
    tensor = GgufTensor(gguf.tensors[ROPE_FACTORS])
    tensor.check()
    factors = tensor.packed().dequantize().reshape(-1)
    if not np.all(np.isfinite(factors) & (factors > 0)):
        raise CheckpointError(f"{tensor.where} must hold positive divisors")
    return tuple(factors.tolist())
