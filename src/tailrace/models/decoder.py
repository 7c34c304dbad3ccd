"""The decoder that all our models are: blocks of attention and MLP, each behind a norm and added to the stream.

What differs follows from the config: grouped-query attention (Llama, Qwen2 with biases, Qwen3 with normed heads,
DeepSeek LLM, Coder, MoE-16B and the R1 distills) or latent attention (DeepSeek V2 and later); one MLP, or a mixture of
experts from some layer on.
"""

from tailrace.models.config import ModelConfig
from tailrace.models.gqa import grouped_query_attention
from tailrace.models.layers import embedding, gated_mlp, head, norm
from tailrace.models.mla import multi_head_latent_attention
from tailrace.models.moe import mixture_of_experts
from tailrace.models.rope import rope_spec
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.program import Program, RopeSpec, Tensor

__all__ = ["record_decoder"]


def record_decoder(config: ModelConfig) -> Program:
    """Record the model from token ids to logits."""
    build, rope = ProgramBuilder(), rope_spec(config)
    x = build.embed(embedding(config))
    for layer in range(config.num_layers):
        normed = norm(build, config, f"layers.{layer}.attention_norm", x)
        x = _attention(build, config, layer, rope, normed, residual=x)
        if layer == config.num_layers - 1:
            x = build.gather_rows(x)  # from here on nobody looks at the rows that are not sampled
        normed = norm(build, config, f"layers.{layer}.mlp_norm", x)
        x = _mlp(build, config, layer, normed, residual=x)
    return build.finish(head(build, config, x))


def _attention(
    build: ProgramBuilder, config: ModelConfig, layer: int, rope: RopeSpec, x: Tensor, *, residual: Tensor
) -> Tensor:
    if config.latent is None:
        return grouped_query_attention(build, config, layer, rope, x, residual=residual)
    return multi_head_latent_attention(build, config, layer, rope, x, sizes=config.latent, residual=residual)


def _mlp(build: ProgramBuilder, config: ModelConfig, layer: int, x: Tensor, *, residual: Tensor) -> Tensor:
    mixture = config.mixture
    if mixture is not None and mixture.is_mixture(layer):
        return mixture_of_experts(build, config, mixture, layer, x, residual=residual)
    return gated_mlp(build, f"layers.{layer}", config.intermediate_size, x, residual=residual)
