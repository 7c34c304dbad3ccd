"""The rotary settings of GGUF metadata, and the tensor of factors that some files hold."""

import numpy as np

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import RopeScaling
from tailrace.models.rope import yarn_magnitude
from tailrace.weights.fields import Fields
from tailrace.weights.gguf import GgufFile
from tailrace.weights.gguf_blocks import GgufTensor

__all__ = ["ROPE_FACTORS", "read_rope_scaling"]

ROPE_FACTORS = "rope_freqs.weight"


def read_rope_scaling(gguf: GgufFile, fields: Fields, max_model_tokens: int) -> RopeScaling | None:
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
    # Files hold a tenth of mscale_all_dim, in 32 bits. With it cos and sin are as they are: mscale is the same.
    mscale = round(10 * fields.number("rope.scaling.yarn_log_multiplier", 0.0), 6)
    usual = 1.0 if mscale else yarn_magnitude(factor)
    attention = fields.positive("rope.scaling.attn_factor", 1.0) * fields.positive("rope.scaling.yarn_attn_factor", 1.0)
    return RopeScaling(
        "yarn",
        factor=factor,
        original_max_tokens=fields.integer("rope.scaling.original_context_length", max_model_tokens),
        beta_fast=fields.positive("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.positive("rope.scaling.yarn_beta_slow", 1.0),
        # GGUF's factor comes on top of the usual magnitude, ours replaces it.
        attention_factor=None if attention == 1.0 else attention * usual,
        mscale=mscale,
        mscale_all_dim=mscale,
    )


def _rope_factors(gguf: GgufFile) -> tuple[float, ...]:
    tensor = GgufTensor(gguf.tensors[ROPE_FACTORS])
    tensor.check()
    factors = tensor.packed().dequantize().reshape(-1)
    if not np.all(np.isfinite(factors) & (factors > 0)):
        raise CheckpointError(f"{tensor.where} must hold positive divisors")
    return tuple(factors.tolist())
