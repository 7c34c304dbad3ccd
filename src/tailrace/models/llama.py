"""Llama, and what is a Llama but for its config: Qwen2 (biases), Qwen3 (normed heads), Coder, LLM, the R1 distills."""

from tailrace.models.config import ModelConfig
from tailrace.models.gqa import grouped_query_attention
from tailrace.models.layers import embedding, gated_mlp, head, norm
from tailrace.models.rope import rope_spec
from tailrace.ops.api import Program, ProgramBuilder

__all__ = ["record_llama"]


def record_llama(config: ModelConfig) -> Program:
    """Record the decoder: blocks of attention and MLP, each behind a norm and added to the stream."""
    build, rope = ProgramBuilder(), rope_spec(config)
    x = build.embed(embedding(config))
    for layer in range(config.num_layers):
        normed = norm(build, config, f"layers.{layer}.attention_norm", x)
        x = grouped_query_attention(build, config, layer, rope, normed, residual=x)
        if layer == config.num_layers - 1:
            x = build.gather_rows(x)  # from here on nobody looks at the rows that are not sampled
        normed = norm(build, config, f"layers.{layer}.mlp_norm", x)
        x = gated_mlp(build, config, layer, normed, residual=x)
    return build.finish(head(build, config, x))
