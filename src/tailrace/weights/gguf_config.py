"""GGUF metadata as a ModelConfig, for the architectures that are Llama but for their settings, and DeepSeek's."""

from collections.abc import Mapping

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import Architecture, LatentConfig, ModelConfig
from tailrace.weights.bounds import MAX_DIM, MAX_HEADS, MAX_LAYERS
from tailrace.weights.deepseek_v4 import refuse_v4
from tailrace.weights.fields import Fields
from tailrace.weights.gguf import GgufFile
from tailrace.weights.gguf_deepseek import deepseek2_generation, read_latent, read_mixture
from tailrace.weights.gguf_rope import read_rope_scaling
from tailrace.weights.heads import Heads
from tailrace.weights.names import GGUF_NAMES

__all__ = ["read_config"]

# By the name in the file; deepseek2 may turn out to be a later one.
_KNOWN: Mapping[str, Architecture] = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "deepseek": "deepseek",
    "deepseek2": "deepseek_v2",
}
# The converters permute the rows of q and k for these, so that pairs are neighbours.
_PERMUTED: frozenset[Architecture] = frozenset({"llama", "deepseek"})

# Keys of architectures that resemble ours; a file that uses one computes something else.
_UNKNOWN_FACTORS = (
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.temperature_scale",
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
    name = _architecture_name(metadata)
    fields = _without_prefix(metadata, name)
    architecture = deepseek2_generation(fields) if name == "deepseek2" else _KNOWN[name]
    latent = read_latent(fields) if name == "deepseek2" else None
    _refuse_unknown_features(fields, architecture)
    heads = _heads(fields, architecture, latent)
    max_model_tokens = fields.integer("context_length")
    return ModelConfig(
        architecture=architecture,
        vocab_size=_vocab_size(gguf),
        hidden_size=fields.integer("embedding_length"),
        intermediate_size=fields.integer("feed_forward_length"),
        num_layers=_num_layers(fields),
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        max_model_tokens=max_model_tokens,
        rms_norm_eps=fields.positive("attention.layer_norm_rms_epsilon"),
        rope_theta=fields.positive("rope.freq_base", 10000.0),
        rope_scaling=read_rope_scaling(gguf, fields, max_model_tokens),
        rope_interleaved=heads.are_interleaved,
        rotary_dim=heads.rotary_dim,
        tie_word_embeddings=GGUF_NAMES["head"] not in gguf.tensors,
        qkv_bias=architecture == "qwen2" or "blk.0.attn_q.bias" in gguf.tensors,
        output_bias="blk.0.attn_output.bias" in gguf.tensors,
        qk_norm=architecture == "qwen3",
        sliding_window=_sliding_window(fields, max_model_tokens),
        latent=latent,
        mixture=read_mixture(fields, gguf.tensors),
    )


def _architecture_name(metadata: Fields) -> str:
    name = metadata.text("general.architecture")
    refuse_v4(metadata.source, name)
    if name not in _KNOWN:
        raise UnsupportedModel(
            f"{metadata.source}: architecture {name!r} is not supported; supported: {', '.join(_KNOWN)}"
        )
    return name


def _without_prefix(metadata: Fields, name: str) -> Fields:
    prefix = f"{name}."
    own = {key.removeprefix(prefix): value for key, value in metadata.values.items() if key.startswith(prefix)}
    return Fields(f"{metadata.source}: {prefix}*", own)


def _refuse_unknown_features(fields: Fields, architecture: Architecture) -> None:
    for key in _UNKNOWN_FACTORS:
        if fields.number(key, 0.0) not in (0.0, 1.0):
            raise UnsupportedModel(f"{fields.source}: {key} is not known in architecture {architecture!r}")
    if not fields.flag("attention.causal", True):
        raise UnsupportedModel(f"{fields.source}: attention that is not causal")
    if not architecture.startswith("deepseek") and fields.integer("expert_count", 0, low=0):
        raise UnsupportedModel(f"{fields.source}: a mixture of experts in architecture {architecture!r}")


def _heads(fields: Fields, architecture: Architecture, latent: LatentConfig | None) -> Heads:
    num_heads = fields.integer("attention.head_count", high=MAX_HEADS)
    if latent is not None:
        return Heads.of_latents(num_heads, latent, are_interleaved=True)
    return _grouped_heads(fields, architecture, num_heads)


def _grouped_heads(fields: Fields, architecture: Architecture, num_heads: int) -> Heads:
    num_kv_heads = fields.integer("attention.head_count_kv", num_heads, high=num_heads)
    if num_heads % num_kv_heads:
        raise fields.wrong("attention.head_count_kv", f"a divisor of the {num_heads} heads")
    default_dim = max(1, fields.integer("embedding_length") // num_heads)
    head_dim = fields.integer("attention.key_length", default_dim, high=MAX_DIM)
    if fields.integer("attention.value_length", head_dim) != head_dim:
        raise UnsupportedModel(f"{fields.source}: heads whose keys and values differ in size")
    if fields.number("rope.scaling.yarn_log_multiplier", 0.0):
        raise UnsupportedModel(f"{fields.source}: rope.scaling.yarn_log_multiplier without latent attention")
    rotary_dim = fields.integer("rope.dimension_count", head_dim, low=2, high=head_dim)
    turned = None if rotary_dim == head_dim else rotary_dim
    return Heads(num_heads, num_kv_heads, head_dim, turned, architecture in _PERMUTED)


def _num_layers(fields: Fields) -> int:
    """Without those for multi-token prediction, which files count in."""
    num_blocks = fields.integer("block_count", high=MAX_LAYERS)
    return num_blocks - fields.integer("nextn_predict_layers", 0, low=0, high=num_blocks - 1)


def _vocab_size(gguf: GgufFile) -> int:
    """The rows of the embedding: files pad it beyond the tokens they list."""
    table = gguf.tensors.get(GGUF_NAMES["embed"])
    if table is None:
        raise CheckpointError(f"{gguf.file.path}: tensor {GGUF_NAMES['embed']!r} is missing")
    return table.shape[0]


def _sliding_window(fields: Fields, max_model_tokens: int) -> int | None:
    window = fields.integer("attention.sliding_window", 0, low=0)
    return window if 0 < window < max_model_tokens else None
