"""Grouped-query attention: many query heads share few key and value heads. Llama, Qwen2 and Qwen3 differ by config."""

from tailrace.models.config import ModelConfig
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.program import RopeSpec, Tensor, Weight

__all__ = ["grouped_query_attention"]


def grouped_query_attention(
    build: ProgramBuilder, config: ModelConfig, layer: int, rope: RopeSpec, x: Tensor, *, residual: Tensor
) -> Tensor:
    """Record o(attention(q(x), k(x), v(x))) + residual; x and the result are [tokens, hidden]."""
    name, hidden = f"layers.{layer}", config.hidden_size
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    rows = {"q": q_size, "k": kv_size, "v": kv_size}

    qkv = build.linear(
        x,
        *(Weight(f"{name}.{part}", (size, hidden)) for part, size in rows.items()),
        biases=tuple(_bias(f"{name}.{part}", size, config.qkv_bias) for part, size in rows.items()),
    )
    cache = build.kv_cache(config.num_kv_heads, config.head_dim)
    q = build.rope_and_store(
        qkv,
        cache,
        config.num_heads,
        rope,
        q_norm=_head_norm(f"{name}.q_norm", config),
        k_norm=_head_norm(f"{name}.k_norm", config),
        eps=config.rms_norm_eps,
    )
    attended = build.paged_attention(q, cache, config.num_heads, config.head_dim**-0.5, config.window_of(layer))
    return build.linear(
        attended,
        Weight(f"{name}.o", (hidden, q_size)),
        biases=(_bias(f"{name}.o", hidden, config.output_bias),),
        residual=residual,
    )


def _bias(name: str, size: int, wanted: bool) -> Weight | None:
    return Weight(f"{name}.bias", (size,)) if wanted else None


def _head_norm(name: str, config: ModelConfig) -> Weight | None:
    return Weight(name, (config.head_dim,)) if config.qk_norm else None
