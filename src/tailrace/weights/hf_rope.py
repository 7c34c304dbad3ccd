"""The rotary settings of a config.json, of either generation: `rope_parameters`, or `rope_theta` and `rope_scaling`."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.errors import UnsupportedModel
from tailrace.models.config import RopeScaling
from tailrace.models.rope import yarn_magnitude
from tailrace.weights.fields import Fields

__all__ = ["RopeFields"]

_MAX_TOKENS = 1 << 30


@dataclass(frozen=True, slots=True)
class RopeFields:
    """`block` is rope_parameters, or rope_scaling; `kind` its rope_type, or type."""

    fields: Fields
    block: Fields
    theta: float
    kind: str

    @classmethod
    def of(cls, fields: Fields) -> "RopeFields":
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
        # As in transformers, the factor may follow from the lengths, but not from one of them.
        has_both = block.has("original_max_position_embeddings")
        factor = block.positive("factor", trained / original if has_both else None)
        return RopeScaling(
            "yarn",
            factor=factor,
            original_max_tokens=original,
            beta_fast=block.positive("beta_fast", 32.0),
            beta_slow=block.positive("beta_slow", 1.0),
            attention_factor=self._attention_factor(factor),
            mscale=block.number("mscale", 0.0),
            mscale_all_dim=block.number("mscale_all_dim", 0.0),
            truncate=block.flag("truncate", True),
        )

    def _attention_factor(self, factor: float) -> float | None:
        """The multiplier of cos and sin, if given.

        R1-0528-Qwen3-8B gives `attn_factor`, which comes on top of the usual magnitude and takes it back; vLLM reads it
        so, transformers does not know the name.
        """
        if self.block.has("attention_factor"):
            return self.block.positive("attention_factor")
        if self.block.has("attn_factor"):
            return self.block.positive("attn_factor") * yarn_magnitude(factor)
        return None
