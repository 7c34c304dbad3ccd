"""What GGUF metadata says of the architectures `deepseek` (MoE-16B) and `deepseek2` (V2, V3) beyond Llama's."""

from collections.abc import Container
from dataclasses import replace
from typing import Literal

from tailrace.errors import UnsupportedModel
from tailrace.models.config import Architecture, LatentConfig, MixtureConfig
from tailrace.ops.program import Routing
from tailrace.weights.bounds import MAX_DIM, MAX_LAYERS
from tailrace.weights.fields import Fields
from tailrace.weights.names import GGUF_NAMES, file_name
from tailrace.weights.routing import RoutingKeys, read_groups, read_routing

__all__ = ["deepseek2_generation", "read_latent", "read_mixture"]

_KEYS = RoutingKeys("expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count")
_SCORING: dict[int, Literal["softmax", "sigmoid"]] = {1: "softmax", 2: "sigmoid"}


def deepseek2_generation(fields: Fields) -> Architecture:
    """V2 and V3 share a name; what tells them apart is how they score experts."""
    return "deepseek_v3" if _scoring(fields) == "sigmoid" else "deepseek_v2"


def read_latent(fields: Fields) -> LatentConfig:
    """The sizes of latent attention.

    Older files give the size of a head as key_length; in newer ones that is the size of what is cached, and
    key_length_mla that of a head.
    """
    suffix = "_mla" if fields.has("attention.key_length_mla") else ""
    rope_dim = fields.integer("rope.dimension_count", low=2, high=MAX_DIM)
    head_dim = fields.integer(f"attention.key_length{suffix}", low=rope_dim + 1, high=2 * MAX_DIM)
    if rope_dim % 2:
        raise fields.wrong("rope.dimension_count", "even: rotary positions turn pairs")
    query_latent = "attention.q_lora_rank"
    return LatentConfig(
        latent_dim=fields.integer("attention.kv_lora_rank", high=MAX_DIM),
        plain_dim=head_dim - rope_dim,
        rope_dim=rope_dim,
        value_dim=fields.integer(f"attention.value_length{suffix}", high=MAX_DIM),
        query_latent_dim=fields.integer(query_latent, high=MAX_DIM) if fields.has(query_latent) else None,
    )


def read_mixture(fields: Fields, tensors: Container[str]) -> MixtureConfig | None:
    """The experts, or None for a model without."""
    if not fields.integer("expert_count", 0, low=0):
        return None
    first = fields.integer("leading_dense_block_count", 0, low=0, high=MAX_LAYERS)
    routing, bias = _routing(fields), file_name(GGUF_NAMES, f"layers.{first}.router.bias")
    if routing.scoring == "softmax" and bias in tensors:
        raise fields.wrong("expert_gating_func", f"2 (sigmoid): tensor {bias!r} is a bias for choosing by sigmoid")
    return MixtureConfig(
        routing=routing,
        expert_size=fields.integer("expert_feed_forward_length"),
        num_shared=fields.integer("expert_shared_count", 0, low=0, high=MAX_DIM),
        first_layer=first,
        has_bias=bias in tensors,
    )


def _routing(fields: Fields) -> Routing:
    scoring = _scoring(fields)
    plain = read_routing(fields, _KEYS, scoring)
    grouped = read_groups(fields, _KEYS, plain, "top two" if scoring == "sigmoid" else "max")
    return replace(
        grouped,
        normalize=fields.flag("expert_weights_norm", False),
        scale=fields.positive("expert_weights_scale", 1.0),
    )


def _scoring(fields: Fields) -> Literal["softmax", "sigmoid"]:
    """Files of the time when there was softmax alone do not say."""
    number = fields.integer("expert_gating_func", 1, low=0)
    if number not in _SCORING:
        raise UnsupportedModel(
            f"{fields.source}: expert_gating_func {number} is not known; known: 1 (softmax), 2 (sigmoid)"
        )
    return _SCORING[number]
