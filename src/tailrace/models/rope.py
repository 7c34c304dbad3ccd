"""Rotary frequencies of a model: the plain ones, and every way of stretching them that checkpoints ask for."""

import math
from collections.abc import Sequence

from tailrace.errors import UnsupportedModel
from tailrace.models.config import ModelConfig, RopeScaling
from tailrace.ops.program import RopeSpec

__all__ = ["attention_magnitude", "rope_spec", "yarn_magnitude"]


def rope_spec(config: ModelConfig) -> RopeSpec:
    """The rotary positions of `config`'s attention heads; with latent attention, of their turning part.

    Raises UnsupportedModel when the scaling lacks a number it needs.
    """
    dim = config.latent.rope_dim if config.latent is not None else config.rotary_dim or config.head_dim
    if dim % 2:
        raise UnsupportedModel(f"rotary dimension {dim} is odd: rotary positions turn pairs")
    frequencies, scale = _frequencies(config, dim)
    return RopeSpec(tuple(frequencies), scale, config.rope_interleaved)


def attention_magnitude(config: ModelConfig) -> float:
    """YaRN's magnitude for `mscale_all_dim`, whose square multiplies the softmax scale of latent attention."""
    scaling = config.rope_scaling
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    return yarn_magnitude(scaling.factor, scaling.mscale_all_dim)


def _frequencies(config: ModelConfig, dim: int) -> tuple[list[float], float]:
    """Radians per position of each pair [dim/2], and the multiplier of cos and sin."""
    scaling = config.rope_scaling
    plain = _plain(config.rope_theta, dim)
    if scaling is None:
        return plain, 1.0
    if scaling.factor <= 0:
        raise UnsupportedModel(f"{scaling.kind} rope scaling by {scaling.factor}: the factor must be positive")
    trained_tokens = scaling.original_max_tokens or config.max_model_tokens
    match scaling.kind:
        case "linear":
            return [frequency / scaling.factor for frequency in plain], 1.0
        case "dynamic":
            theta = _dynamic_theta(config.rope_theta, dim, scaling.factor, config.max_model_tokens / trained_tokens)
            return _plain(theta, dim), 1.0
        case "yarn":
            return _yarn(plain, config.rope_theta, trained_tokens, scaling), _yarn_scale(scaling)
        case "llama3":
            return [_llama3(frequency, trained_tokens, scaling) for frequency in plain], 1.0
        case "factors":
            return _divided(plain, scaling.factors), 1.0


def _plain(theta: float, dim: int) -> list[float]:
    return [theta ** (-2 * pair / dim) for pair in range(dim // 2)]


def _dynamic_theta(theta: float, dim: int, factor: float, stretch: float) -> float:
    """NTK-aware base for sequences of `stretch` times the trained length.

    Taken once, for the longest sequence the server allows: a base that followed each sequence's length would leave
    cached keys turned by an older base, and make an answer depend on how its prompt was cut.
    """
    if stretch <= 1:
        return theta
    return theta * math.pow(factor * stretch - (factor - 1), dim / (dim - 2))


def _yarn(plain: Sequence[float], theta: float, trained_tokens: int, scaling: RopeScaling) -> list[float]:
    """Fast pairs stay, slow pairs are divided by the factor, those between are blended along a ramp."""
    low, high = _yarn_bounds(2 * len(plain), theta, trained_tokens, scaling)
    ramp = [min(max((pair - low) / (high - low), 0.0), 1.0) for pair in range(len(plain))]
    return [
        frequency / scaling.factor * share + frequency * (1 - share)
        for frequency, share in zip(plain, ramp, strict=True)
    ]


def _yarn_bounds(dim: int, theta: float, trained_tokens: int, scaling: RopeScaling) -> tuple[float, float]:
    """The pairs that turn beta_fast and beta_slow times over the trained length."""

    def pair_turning(times: float) -> float:
        return dim * math.log(trained_tokens / (2 * math.pi * times)) / (2 * math.log(theta))

    low, high = pair_turning(scaling.beta_fast), pair_turning(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return low, high if high != low else high + 0.001


def _yarn_scale(scaling: RopeScaling) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return yarn_magnitude(scaling.factor, scaling.mscale) / yarn_magnitude(scaling.factor, scaling.mscale_all_dim)
    return yarn_magnitude(scaling.factor)


def yarn_magnitude(factor: float, mscale: float = 1.0) -> float:
    """By how much YaRN sharpens attention over a context stretched by `factor`."""
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _llama3(frequency: float, trained_tokens: int, scaling: RopeScaling) -> float:
    """Short waves stay, long ones are divided by the factor, those between are blended."""
    turns = trained_tokens * frequency / (2 * math.pi)
    if turns > scaling.high_freq_factor:
        return frequency
    if turns < scaling.low_freq_factor:
        return frequency / scaling.factor
    share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    return (1 - share) * frequency / scaling.factor + share * frequency


def _divided(plain: Sequence[float], factors: Sequence[float]) -> list[float]:
    if len(factors) != len(plain):
        raise UnsupportedModel(f"{len(factors)} rope factors for {len(plain)} rotary pairs")
    return [frequency / factor for frequency, factor in zip(plain, factors, strict=True)]
