"""Hugging Face config.json as a ModelConfig, for the classes that are Llama but for their settings.

Both generations are read: `rope_theta` with `rope_scaling`, and `rope_parameters`; `type` and `rope_type`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import UnsupportedModel
from tailrace.models.config import Architecture, ModelConfig, RopeScaling
from tailrace.weights.fields import Fields

__all__ = ["read_config"]

_CLASSES: Mapping[str, Architecture] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
_MODEL_TYPES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM"} | {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_MAX_LAYERS = 1024
_MAX_TOKENS = 1 << 30


def read_config(fields: Fields, *, has_head: bool) -> ModelConfig:
    """`has_head`: the files hold a head of their own, which decides where the config does not say.

    Raises UnsupportedModel for a class or feature not known here, CheckpointError for wrong values."""
    class_name = _class_name(fields)
    architecture = _CLASSES[class_name]
    _refuse_unknown_features(fields)
    num_heads = fields.integer("num_attention_heads", high=4096)
    num_kv_heads = fields.integer("num_key_value_heads", num_heads, high=num_heads)
    if num_heads % num_kv_heads:
        raise fields.wrong("num_key_value_heads", f"a divisor of the {num_heads} heads")
    hidden_size = fields.integer("hidden_size")
    head_dim = fields.integer("head_dim", max(1, hidden_size // num_heads))
    rope = _Rope.of(fields)
    window, num_full = _sliding_window(fields, class_name)
    attention_bias = fields.flag("attention_bias", False)
    return ModelConfig(
        architecture=architecture,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden_size,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=fields.integer("num_hidden_layers", high=_MAX_LAYERS),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        max_model_tokens=rope.max_model_tokens,
        rms_norm_eps=fields.positive("rms_norm_eps", 1e-6),
        rope_theta=rope.theta,
        rope_scaling=rope.scaling,
        rotary_dim=rope.rotary_dim(head_dim),
        tie_word_embeddings=fields.flag("tie_word_embeddings", not has_head),
        qkv_bias=architecture == "qwen2" or attention_bias,
        output_bias=architecture != "qwen2" and attention_bias,
        qk_norm=architecture == "qwen3",
        sliding_window=window,
        num_full_attention_layers=num_full,
    )


def _class_name(fields: Fields) -> str:
    names = fields.values.get("architectures") or [_MODEL_TYPES.get(fields.text("model_type", "")) or "nothing"]
    name = names[0] if isinstance(names, list) and isinstance(names[0], str) else "nothing"
    if name not in _CLASSES:
        raise UnsupportedModel(
            f"{fields.source}: architecture {name!r} is not supported; supported: {', '.join(_CLASSES)}"
        )
    return name


def _refuse_unknown_features(fields: Fields) -> None:
    if fields.has("quantization_config"):
        method = fields.table("quantization_config").text("quant_method", "of no name")
        raise UnsupportedModel(
            f"{fields.source}: weights quantised by method {method!r} are not supported; take the model's unquantised "
            "files (with --quantize int8 or int4) or a GGUF file"
        )
    if (activation := fields.text("hidden_act", "silu")) != "silu":
        raise UnsupportedModel(f"{fields.source}: hidden_act {activation!r} is not supported; supported: silu")
    if fields.flag("mlp_bias", False):
        raise UnsupportedModel(f"{fields.source}: mlp_bias is not supported")


@dataclass(frozen=True, slots=True)
class _Rope:
    """The rotary settings of either generation: `block` is rope_parameters, or rope_scaling."""

    fields: Fields
    block: Fields
    theta: float
    kind: str

    @classmethod
    def of(cls, fields: Fields) -> "_Rope":
        block = fields.table("rope_parameters" if fields.has("rope_parameters") else "rope_scaling")
        if any(isinstance(value, Mapping) for value in block.values.values()):
            raise UnsupportedModel(f"{block.source}: settings that differ between layers are not supported")
        kind = block.text("rope_type", block.text("type", "default"))
        theta = block.positive("rope_theta", fields.positive("rope_theta", 10000.0))
        return cls(fields, block, theta, kind)

    @property
    def trained_tokens(self) -> int:
        return self.fields.integer("max_position_embeddings")

    @property
    def scaling(self) -> RopeScaling | None:
        match self.kind:
            case "default":
                return None
            case "linear":
                return RopeScaling("linear", factor=self.block.positive("factor"))
            case "dynamic":
                # As in transformers, nothing is stretched up to max_position_embeddings, and no further do we go.
                return RopeScaling("dynamic", self.block.positive("factor"), self.trained_tokens)
            case "llama3":
                return self._llama3()
            case "yarn":
                return self._yarn()
            case other:
                raise UnsupportedModel(
                    f"{self.block.source}: rope type {other!r} is not supported; supported: default, linear, dynamic, "
                    "llama3, yarn"
                )

    @property
    def max_model_tokens(self) -> int:
        """max_position_embeddings, or what YaRN stretches the trained length to, where that is more."""
        scaling = self.scaling
        if scaling is None or scaling.kind != "yarn":
            return self.trained_tokens
        stretched = scaling.original_max_tokens * scaling.factor
        if stretched > _MAX_TOKENS:
            raise self.block.wrong("factor", f"such that the context stays below {_MAX_TOKENS} tokens")
        return max(self.trained_tokens, int(stretched))

    def rotary_dim(self, head_dim: int) -> int | None:
        """The turned part of a head; None: all of it."""
        holder = self.block if self.block.has("partial_rotary_factor") else self.fields
        share = holder.positive("partial_rotary_factor", 1.0)
        if not 2 <= head_dim * share <= head_dim:
            raise holder.wrong("partial_rotary_factor", f"at most 1, and leave two of the {head_dim} values of a head")
        return None if share == 1 else int(head_dim * share)

    def _llama3(self) -> RopeScaling:
        return RopeScaling(
            "llama3",
            factor=self.block.positive("factor"),
            original_max_tokens=self.block.integer("original_max_position_embeddings"),
            low_freq_factor=self.block.positive("low_freq_factor"),
            high_freq_factor=self.block.positive("high_freq_factor"),
        )

    def _yarn(self) -> RopeScaling:
        block, trained = self.block, self.trained_tokens
        original = block.integer("original_max_position_embeddings", trained)
        factor = block.positive("factor", trained / original)
        return RopeScaling(
            "yarn",
            factor=factor,
            original_max_tokens=original,
            beta_fast=block.positive("beta_fast", 32.0),
            beta_slow=block.positive("beta_slow", 1.0),
            attention_factor=block.positive("attention_factor") if block.has("attention_factor") else None,
            mscale=block.number("mscale", 0.0),
            mscale_all_dim=block.number("mscale_all_dim", 0.0),
            truncate=block.flag("truncate", True),
        )


def _sliding_window(fields: Fields, class_name: str) -> tuple[int | None, int]:
    """The window, and how many first layers see everything. Qwen files name a window they do not use."""
    if class_name == "LlamaForCausalLM":
        return None, 0
    if class_name != "MistralForCausalLM" and not fields.flag("use_sliding_window", False):
        return None, 0
    window = fields.integer("sliding_window", 0, low=0)
    if not window or window >= fields.integer("max_position_embeddings"):
        return None, 0
    return window, _num_full_layers(fields, class_name)


def _num_full_layers(fields: Fields, class_name: str) -> int:
    if not fields.has("layer_types"):
        num_layers = fields.integer("num_hidden_layers", high=_MAX_LAYERS)
        return 0 if class_name == "MistralForCausalLM" else fields.integer("max_window_layers", num_layers, low=0)
    types = fields.values["layer_types"]
    if not isinstance(types, list):
        raise fields.wrong("layer_types", "a list")
    num_full = types.count("full_attention")
    if types != ["full_attention"] * num_full + ["sliding_attention"] * (len(types) - num_full):
        raise UnsupportedModel(f"{fields.source}: layer_types must be full attention first, then sliding, in one block")
    return num_full
