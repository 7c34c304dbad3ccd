"""Hugging Face config.json as a ModelConfig, for the classes that are Llama but for their settings, and DeepSeek's."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import UnsupportedModel
from tailrace.models.config import Architecture, LatentConfig, ModelConfig
from tailrace.weights.bounds import MAX_DIM, MAX_HEADS, MAX_LAYERS
from tailrace.weights.deepseek_v4 import refuse_v4
from tailrace.weights.fields import Fields
from tailrace.weights.heads import Heads
from tailrace.weights.hf_deepseek import is_latent, read_latent, read_mixture, read_sparse
from tailrace.weights.hf_rope import RopeFields
from tailrace.weights.scheme import UnknownScheme, read_scheme

__all__ = ["read_config"]

_CLASSES: Mapping[str, Architecture] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "DeepseekForCausalLM": "deepseek",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "DeepseekV32ForCausalLM": "deepseek_v32",
}
_MODEL_TYPES: Mapping[str, str] = {architecture: name for name, architecture in _CLASSES.items()} | {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
}
_WINDOWED = ("Qwen2ForCausalLM", "Qwen3ForCausalLM")  # where they are told to
_PUBLISHED_IN_FP8: tuple[Architecture, ...] = ("deepseek_v3", "deepseek_v32")
_NOT_IN_GGUF: tuple[Architecture, ...] = ("deepseek_v32",)
_FULL = "full_attention"
_LAYER_TYPES = (_FULL, "sliding_attention")


def read_config(fields: Fields, *, has_head: bool) -> ModelConfig:
    """`has_head`: the files hold a head of their own, which decides where the config does not say.

    Raises UnsupportedModel for a class or feature not known here, CheckpointError for wrong values."""
    class_name = _class_name(fields)
    architecture = _CLASSES[class_name]
    _refuse_quantized(fields, architecture)
    _refuse_unknown_features(fields)
    rope = RopeFields.of(fields)
    latent = read_latent(fields) if is_latent(architecture) else None
    heads = _grouped_heads(fields, rope) if latent is None else _latent_heads(fields, rope, latent, architecture)
    windows = _windows(fields, class_name)
    attention_bias = fields.flag("attention_bias", False)
    return ModelConfig(
        architecture=architecture,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=fields.integer("hidden_size"),
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=fields.integer("num_hidden_layers", high=MAX_LAYERS),
        num_heads=heads.num_heads,
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        max_model_tokens=rope.max_model_tokens,
        rms_norm_eps=fields.positive("rms_norm_eps", 1e-6),
        rope_theta=rope.theta,
        rope_scaling=rope.scaling,
        rope_interleaved=heads.are_interleaved,
        rotary_dim=heads.rotary_dim,
        tie_word_embeddings=fields.flag("tie_word_embeddings", not has_head),
        qkv_bias=architecture == "qwen2" or attention_bias,
        output_bias=architecture != "qwen2" and attention_bias,
        qk_norm=architecture == "qwen3",
        sliding_window=windows.window,
        num_full_attention_layers=windows.num_full,
        full_attention_layers=windows.full,
        latent=latent,
        sparse=read_sparse(fields, architecture, latent, rope.max_model_tokens),
        mixture=read_mixture(fields, architecture),
    )


def _class_name(fields: Fields) -> str:
    model_type = fields.text("model_type", "")
    name = _first_class(fields) or _MODEL_TYPES.get(model_type, model_type)
    if not name:
        raise fields.wrong("architectures", "a list of one class name")
    refuse_v4(fields.source, model_type, name)
    if name not in _CLASSES:
        raise UnsupportedModel(
            f"{fields.source}: architecture {name[:60]!r} is not supported; supported: {', '.join(_CLASSES)}"
        )
    return name


def _first_class(fields: Fields) -> str | None:
    """The first of `architectures`, or what stands there without a list; None: the config does not say."""
    names = fields.values.get("architectures") or None
    name = names[0] if isinstance(names, list) else names
    if not isinstance(name, str | None):
        raise fields.wrong("architectures", "a list of one class name")
    return name


def _grouped_heads(fields: Fields, rope: RopeFields) -> Heads:
    num_heads = fields.integer("num_attention_heads", high=MAX_HEADS)
    num_kv_heads = fields.integer("num_key_value_heads", num_heads, high=num_heads)
    if num_heads % num_kv_heads:
        raise fields.wrong("num_key_value_heads", f"a divisor of the {num_heads} heads")
    default_dim = max(1, fields.integer("hidden_size") // num_heads)
    head_dim = fields.integer("head_dim", default_dim, high=MAX_DIM)
    return Heads(num_heads, num_kv_heads, head_dim, rope.rotary_dim(head_dim), are_interleaved=False)


def _latent_heads(fields: Fields, rope: RopeFields, latent: LatentConfig, architecture: Architecture) -> Heads:
    """The head_dim of these configs is another."""
    if rope.rotary_dim(latent.rope_dim) is not None:
        raise UnsupportedModel(f"{fields.source}: partial_rotary_factor is not supported with latent attention")
    # Of these classes in transformers, V3's alone asks.
    are_interleaved = architecture != "deepseek_v3" or fields.flag("rope_interleave", True)
    num_heads = fields.integer("num_attention_heads", high=MAX_HEADS)
    return Heads.of_latents(num_heads, latent, are_interleaved=are_interleaved)


def _refuse_quantized(fields: Fields, architecture: Architecture) -> None:
    try:
        read_scheme(fields)
    except UnknownScheme as error:
        # V3 and later are published in FP8 alone.
        files = "DeepSeek's own files in fp8" if architecture in _PUBLISHED_IN_FP8 else "the model's unquantised files"
        gguf = "" if architecture in _NOT_IN_GGUF else ", or a GGUF file"
        raise UnsupportedModel(f"{error}; take {files} (with --quantize int8 or int4){gguf}") from error


def _refuse_unknown_features(fields: Fields) -> None:
    if (activation := fields.text("hidden_act", "silu")) != "silu":
        raise UnsupportedModel(f"{fields.source}: hidden_act {activation!r} is not supported; supported: silu")
    if fields.flag("mlp_bias", False):
        raise UnsupportedModel(f"{fields.source}: mlp_bias is not supported")


@dataclass(frozen=True, slots=True)
class _Windows:
    """The window, and which layers see everything: the first `num_full`, and those in `full`."""

    window: int | None = None
    num_full: int = 0
    full: tuple[int, ...] = ()


def _windows(fields: Fields, class_name: str) -> _Windows:
    """Qwen files name a window they do not use."""
    is_used = class_name == "MistralForCausalLM" or (
        class_name in _WINDOWED and fields.flag("use_sliding_window", False)
    )
    if not is_used:
        return _Windows()
    window = fields.integer("sliding_window", 0, low=0)
    if not window or window >= fields.integer("max_position_embeddings"):
        return _Windows()
    if class_name == "MistralForCausalLM":
        return _Windows(window)
    num_layers = fields.integer("num_hidden_layers", high=MAX_LAYERS)
    if fields.has("layer_types"):
        return _listed_windows(fields, window, num_layers)
    return _Windows(window, fields.integer("max_window_layers", num_layers, low=0))


def _listed_windows(fields: Fields, window: int, num_layers: int) -> _Windows:
    types = fields.values["layer_types"]
    if not isinstance(types, list) or len(types) != num_layers:
        raise fields.wrong("layer_types", f"a list of {num_layers}")
    for kind in types:
        if kind not in _LAYER_TYPES:
            raise UnsupportedModel(
                f"{fields.source}: layer type {str(kind)[:60]!r} is not supported; supported: {', '.join(_LAYER_TYPES)}"
            )
    num_full = next((layer for layer, kind in enumerate(types) if kind != _FULL), num_layers)
    return _Windows(window, num_full, tuple(layer for layer in range(num_full, num_layers) if types[layer] == _FULL))
