"""Mixtures of experts as DeepSeek has them: routed experts, and shared ones that every token goes through."""

from tailrace.models.config import MixtureConfig, ModelConfig
from tailrace.models.layers import gated_mlp
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.program import Tensor, Weight

__all__ = ["mixture_of_experts"]


def mixture_of_experts(
    build: ProgramBuilder, config: ModelConfig, mixture: MixtureConfig, layer: int, x: Tensor, *, residual: Tensor
) -> Tensor:
    """Record experts(x) + shared(x) + residual; x and the result are [rows, hidden]."""
    name, hidden = f"layers.{layer}", config.hidden_size
    count, inner = mixture.routing.num_experts, mixture.expert_size
    logits = build.linear(x, Weight(f"{name}.router", (count, hidden)))
    if mixture.num_shared:
        residual = gated_mlp(build, f"{name}.shared", mixture.num_shared * inner, x, residual=residual)
    return build.experts(
        x,
        logits,
        mixture.routing,
        gate=Weight(f"{name}.experts.gate", (count * inner, hidden)),
        up=Weight(f"{name}.experts.up", (count * inner, hidden)),
        down=Weight(f"{name}.experts.down", (count * hidden, inner)),
        residual=residual,
        bias=Weight(f"{name}.router.bias", (count,)) if mixture.has_bias else None,
    )
