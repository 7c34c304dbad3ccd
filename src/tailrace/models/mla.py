"""Multi-head latent attention: a token keeps one latent for all heads. DeepSeek V2 and V3, and V3.2 with an indexer."""

import math

from tailrace.models.config import LatentConfig, ModelConfig
from tailrace.models.rope import attention_magnitude
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.program import RopeSpec, Tensor, Weight

__all__ = ["multi_head_latent_attention"]

# transformers and DeepSeek's own code norm latents with this, whatever the config's rms_norm_eps.
_LATENT_EPS = 1e-6
_INDEX_EPS = 1e-6


def multi_head_latent_attention(
    build: ProgramBuilder,
    config: ModelConfig,
    layer: int,
    rope: RopeSpec,
    x: Tensor,
    *,
    sizes: LatentConfig,
    residual: Tensor,
) -> Tensor:
    """Record o(attention(q(x), latent(x))) + residual; x and the result are [tokens, hidden]."""
    name, hidden, heads = f"layers.{layer}", config.hidden_size, config.num_heads
    query_latent = _query_latent(build, sizes, name, x)
    queries = (heads * (sizes.plain_dim + sizes.rope_dim), query_latent.cols)
    q = build.linear(query_latent, Weight(f"{name}.{'q' if query_latent is x else 'q_b'}", queries))
    latent = build.linear(x, Weight(f"{name}.kv_a", (sizes.latent_dim + sizes.rope_dim, hidden)))
    attended = build.latent_attention(
        q,
        latent,
        build.kv_cache(1, latent.cols, has_values=False),
        heads,
        norm=Weight(f"{name}.kv_a_norm", (sizes.latent_dim,)),
        eps=_LATENT_EPS,
        rope=rope,
        k_b=Weight(f"{name}.k_b", (heads * sizes.latent_dim, sizes.plain_dim)),
        v_b=Weight(f"{name}.v_b", (heads * sizes.value_dim, sizes.latent_dim)),
        scale=_softmax_scale(config, sizes),
        selection=_selection(build, config, layer, rope, x, query_latent=query_latent),
    )
    return build.linear(attended, Weight(f"{name}.o", (hidden, attended.cols)), residual=residual)


def _query_latent(build: ProgramBuilder, sizes: LatentConfig, name: str, x: Tensor) -> Tensor:
    """What queries are projected from: x itself, or its normed projection to q_lora_rank."""
    dim = sizes.query_latent_dim
    if dim is None:
        return x
    projected = build.linear(x, Weight(f"{name}.q_a", (dim, x.cols)))
    return build.rms_norm(projected, Weight(f"{name}.q_a_norm", (dim,)), _LATENT_EPS)


def _selection(
    build: ProgramBuilder, config: ModelConfig, layer: int, rope: RopeSpec, x: Tensor, *, query_latent: Tensor
) -> Tensor | None:
    """The positions each token may attend to. The indexer turns halves, where attention turns neighbours."""
    sparse, name = config.sparse, f"layers.{layer}.index"
    if sparse is None:
        return None
    dim = sparse.head_dim
    q = build.linear(query_latent, Weight(f"{name}.q", (sparse.num_heads * dim, query_latent.cols)))
    k = build.linear(x, Weight(f"{name}.k", (dim, x.cols)))
    head_weights = build.linear(x, Weight(f"{name}.weights", (sparse.num_heads, x.cols)))
    return build.select_positions(
        q,
        k,
        head_weights,
        build.kv_cache(1, dim, has_values=False),
        sparse.top_k,
        norm=Weight(f"{name}.k_norm", (dim,)),
        norm_bias=Weight(f"{name}.k_norm.bias", (dim,)),
        eps=_INDEX_EPS,
        rope=RopeSpec(rope.inv_freq, rope.scale, interleaved=False),
    )


def _softmax_scale(config: ModelConfig, sizes: LatentConfig) -> float:
    """(dn + dr)^-0.5, in the absorbed form too, times the square of YaRN's magnitude for `mscale_all_dim`."""
    return attention_magnitude(config) ** 2 / math.sqrt(sizes.plain_dim + sizes.rope_dim)
