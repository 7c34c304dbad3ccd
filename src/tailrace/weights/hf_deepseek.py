"""What config.json says of DeepSeek's architectures beyond Llama's: latent attention, experts, the index.

Where a setting decides nothing in transformers, it decides nothing here; where it asks for what neither computes, it is
refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tailrace.errors import UnsupportedModel
from tailrace.models.config import Architecture, LatentConfig, MixtureConfig, SparseConfig
from tailrace.ops.program import Routing
from tailrace.weights.bounds import MAX_DIM, MAX_LAYERS
from tailrace.weights.fields import Fields
from tailrace.weights.routing import RoutingKeys, read_groups, read_routing

__all__ = ["is_latent", "read_latent", "read_mixture", "read_sparse"]

_KEYS = RoutingKeys("n_routed_experts", "num_experts_per_tok", "n_group", "topk_group")


@dataclass(frozen=True, slots=True)
class _Generation:
    """What a config of this architecture leaves out, and what it may ask for."""

    scoring: str
    methods: tuple[str, ...]
    num_dense: int = 0
    scale: float = 1.0


_GENERATIONS: Mapping[Architecture, _Generation] = {
    "deepseek": _Generation("softmax", ("greedy",)),
    "deepseek_v2": _Generation("softmax", ("greedy", "group_limited_greedy")),
    "deepseek_v3": _Generation("sigmoid", ("noaux_tc",), num_dense=3, scale=2.5),
    "deepseek_v32": _Generation("sigmoid", ("noaux_tc",), num_dense=3, scale=2.5),
}


def is_latent(architecture: Architecture) -> bool:
    return architecture in ("deepseek_v2", "deepseek_v3", "deepseek_v32")


def read_latent(fields: Fields) -> LatentConfig:
    """The sizes of latent attention; without q_lora_rank, queries are projected in one step."""
    if fields.flag("attention_bias", False):
        raise UnsupportedModel(f"{fields.source}: attention_bias is not supported with latent attention")
    has_query_latent = fields.has("q_lora_rank")
    rope_dim = fields.integer("qk_rope_head_dim", low=2, high=MAX_DIM)
    if rope_dim % 2:
        raise fields.wrong("qk_rope_head_dim", "even: rotary positions turn pairs")
    return LatentConfig(
        latent_dim=fields.integer("kv_lora_rank", high=MAX_DIM),
        plain_dim=fields.integer("qk_nope_head_dim", high=MAX_DIM),
        rope_dim=rope_dim,
        value_dim=fields.integer("v_head_dim", high=MAX_DIM),
        query_latent_dim=fields.integer("q_lora_rank", high=MAX_DIM) if has_query_latent else None,
    )


def read_sparse(
    fields: Fields, architecture: Architecture, latent: LatentConfig | None, max_model_tokens: int
) -> SparseConfig | None:
    """The index of V3.2, which is asked with the queries' latents."""
    if architecture != "deepseek_v32" or latent is None:
        return None
    if latent.query_latent_dim is None:
        raise fields.wrong("q_lora_rank", "given: the index reads the latent of queries")
    return SparseConfig(
        num_heads=fields.integer("index_n_heads", high=MAX_DIM),
        head_dim=fields.integer("index_head_dim", low=latent.rope_dim, high=MAX_DIM),
        top_k=min(fields.integer("index_topk"), max_model_tokens),  # room for more would never be filled
    )


def read_mixture(fields: Fields, architecture: Architecture) -> MixtureConfig | None:
    """The experts, or None for a model without."""
    generation = _GENERATIONS.get(architecture)
    if generation is None or not fields.has("n_routed_experts"):
        return None
    first, every = _mixture_layers(fields, generation)
    return MixtureConfig(
        routing=_routing(fields, architecture, generation),
        expert_size=fields.integer("moe_intermediate_size"),
        num_shared=fields.integer("n_shared_experts", 0, low=0, high=MAX_DIM),
        first_layer=first,
        every=every,
        has_bias=generation.scoring == "sigmoid",
    )


def _routing(fields: Fields, architecture: Architecture, generation: _Generation) -> Routing:
    method = _choice(fields, "topk_method", generation.methods)
    scale = fields.positive("routed_scaling_factor", generation.scale)
    if generation.scoring == "sigmoid":
        _choice(fields, "scoring_func", ("sigmoid",))
        routing = read_groups(fields, _KEYS, read_routing(fields, _KEYS, "sigmoid"), "top two", default=(8, 4))
        return replace(routing, normalize=fields.flag("norm_topk_prob", True), scale=scale)
    _choice(fields, "scoring_func", ("softmax",))
    routing = read_routing(fields, _KEYS, "softmax")
    if architecture == "deepseek":
        return replace(routing, normalize=fields.flag("norm_topk_prob", False), scale=scale)
    # V2 does not normalise, whatever norm_topk_prob says.
    if method == "group_limited_greedy":
        routing = read_groups(fields, _KEYS, routing, "max")
    return replace(routing, scale=scale)


def _choice(fields: Fields, key: str, known: tuple[str, ...]) -> str:
    value = fields.text(key, known[0])
    if value not in known:
        raise UnsupportedModel(f"{fields.source}: {key} {value!r} is not supported here; supported: {', '.join(known)}")
    return value


def _mixture_layers(fields: Fields, generation: _Generation) -> tuple[int, int]:
    """The first layer of experts, and every how many layers there is one."""
    types = fields.values.get("mlp_layer_types")
    if types is None:
        first = fields.integer("first_k_dense_replace", generation.num_dense, low=0, high=MAX_LAYERS)
        return first, fields.integer("moe_layer_freq", 1, high=MAX_LAYERS)
    if not isinstance(types, list):
        raise fields.wrong("mlp_layer_types", "a list")
    num_dense = types.count("dense")
    if types != ["dense"] * num_dense + ["sparse"] * (len(types) - num_dense):
        raise UnsupportedModel(f"{fields.source}: mlp_layer_types must be dense first, then sparse, in one block")
    return num_dense, 1
