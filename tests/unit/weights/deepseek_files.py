"""Tiny DeepSeek models of every generation, and their settings and tensors as files of either format hold them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType as GgmlType
from gguf.quants import dequantize
from numpy.typing import NDArray

from tailrace.models.config import LatentConfig, MixtureConfig, ModelConfig, RopeScaling, SparseConfig
from tailrace.ops.program import Routing
from tailrace.weights.expected import expected_shapes
from tailrace.weights.mtp import mtp_shapes
from tailrace.weights.names import GGUF_NAMES, HUGGING_FACE_NAMES, file_name, tensor_class
from tests.unit.weights.k_blocks import blocks_of
from tests.unit.weights.model_files import TINY, gguf_metadata, write_gguf_part, write_stored

__all__ = [
    "DEEPSEEK",
    "deepseek_settings",
    "deepseek_values",
    "hugging_face_tensors",
    "write_deepseek",
    "write_deepseek_gguf",
]

Array = NDArray[np.float32]

_YARN = RopeScaling("yarn", factor=4.0, original_max_tokens=32, mscale=0.707, mscale_all_dim=0.707)
_V3_ROUTING = Routing(8, 3, "sigmoid", 4, 2, "top two", normalize=True, scale=2.5)
_MOE = replace(
    TINY,
    architecture="deepseek",
    num_layers=3,
    mixture=MixtureConfig(Routing(4, 2, "softmax"), expert_size=32, num_shared=2, first_layer=1),
)
_LITE = replace(
    _MOE,
    architecture="deepseek_v2",
    num_kv_heads=1,
    head_dim=24,
    rotary_dim=8,
    rope_interleaved=True,
    rope_scaling=_YARN,
    latent=LatentConfig(latent_dim=32, plain_dim=16, rope_dim=8, value_dim=12),
)
_V2 = replace(
    _LITE,
    latent=LatentConfig(latent_dim=32, plain_dim=16, rope_dim=8, value_dim=12, query_latent_dim=40),
    mixture=MixtureConfig(Routing(6, 2, "softmax", 3, 2, scale=16.0), expert_size=32, num_shared=2, first_layer=1),
)
_V3 = replace(
    _V2,
    architecture="deepseek_v3",
    mixture=MixtureConfig(_V3_ROUTING, expert_size=32, num_shared=1, first_layer=1, has_bias=True),
)
DEEPSEEK: dict[str, ModelConfig] = {
    "MoE-16B": _MOE,
    "V2-Lite": _LITE,
    "V2": _V2,
    "V3": _V3,
    "V3 without q-LoRA": replace(_V3, latent=_LITE.latent),
    "V3 with MTP": replace(_V3, num_mtp_layers=2),
    "V3.2": replace(_V3, architecture="deepseek_v32", sparse=SparseConfig(num_heads=4, head_dim=16, top_k=20)),
}

_CLASS_NAMES = {
    "deepseek": "DeepseekForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
}


def deepseek_values(config: ModelConfig, seed: int = 0) -> dict[str, Array]:
    """Our names -> values that any of the float formats hold exactly."""
    generator = np.random.default_rng(seed)
    shapes = expected_shapes(config) | mtp_shapes(config)
    return {name: (generator.integers(-64, 64, shape) / 64).astype(np.float32) for name, shape in shapes.items()}


def deepseek_settings(config: ModelConfig) -> dict[str, Any]:
    """config.json as DeepSeek writes it."""
    settings: dict[str, Any] = {
        "architectures": [_CLASS_NAMES[config.architecture]],
        "model_type": config.architecture,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_heads if config.latent else config.num_kv_heads,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_model_tokens,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": _rope_scaling(config.rope_scaling),
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return settings | _latent(config) | _mixture(config) | _sparse(config)


def _rope_scaling(scaling: RopeScaling | None) -> dict[str, Any] | None:
    if scaling is None:
        return None
    return {
        "type": scaling.kind,
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_max_tokens,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim,
    }


def _latent(config: ModelConfig) -> dict[str, Any]:
    sizes = config.latent
    if sizes is None:
        return {}
    return {
        "q_lora_rank": sizes.query_latent_dim,
        "kv_lora_rank": sizes.latent_dim,
        "qk_nope_head_dim": sizes.plain_dim,
        "qk_rope_head_dim": sizes.rope_dim,
        "v_head_dim": sizes.value_dim,
    }


def _mixture(config: ModelConfig) -> dict[str, Any]:
    mixture = config.mixture
    if mixture is None:
        return {}
    routing = mixture.routing
    method = "noaux_tc" if mixture.has_bias else "greedy" if routing.num_groups == 1 else "group_limited_greedy"
    return {
        "n_routed_experts": routing.num_experts,
        "num_experts_per_tok": routing.top_k,
        "n_shared_experts": mixture.num_shared,
        "moe_intermediate_size": mixture.expert_size,
        "first_k_dense_replace": mixture.first_layer,
        "moe_layer_freq": mixture.every,
        "scoring_func": routing.scoring,
        "topk_method": method,
        "n_group": routing.num_groups,
        "topk_group": routing.top_groups,
        "norm_topk_prob": routing.normalize,
        "routed_scaling_factor": routing.scale,
        "num_nextn_predict_layers": config.num_mtp_layers,
    }


def _sparse(config: ModelConfig) -> dict[str, Any]:
    if (sparse := config.sparse) is None:
        return {}
    return {"index_n_heads": sparse.num_heads, "index_head_dim": sparse.head_dim, "index_topk": sparse.top_k}


def hugging_face_tensors(config: ModelConfig, values: Mapping[str, Array]) -> dict[str, Array]:
    """The same values under the names that DeepSeek saves: kv_b in one piece, each expert by itself."""
    return dict(_stored(config, values))


def _stored(config: ModelConfig, values: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for ours, array in values.items():
        part = tensor_class(ours)
        if part == "k_b":
            joined = join_kv_b(config, array, values[ours.removesuffix("k_b") + "v_b"])
            yield file_name(HUGGING_FACE_NAMES, ours, config.num_layers, part="kv_b"), joined
        elif part.startswith("experts.") and config.mixture is not None:
            pattern = file_name(HUGGING_FACE_NAMES, ours, config.num_layers)
            for expert, piece in enumerate(np.split(array, config.mixture.routing.num_experts)):
                yield pattern.replace("{expert}", str(expert)), piece
        elif part != "v_b":
            yield file_name(HUGGING_FACE_NAMES, ours, config.num_layers), array


def join_kv_b(config: ModelConfig, k_b: Array, v_b: Array) -> Array:
    """kv_b [H * (dn + dv), r] of k_b [H * r, dn] and v_b [H * dv, r]."""
    sizes, heads = config.latent, config.num_heads
    assert sizes is not None
    keys = k_b.reshape(heads, sizes.latent_dim, sizes.plain_dim).transpose(0, 2, 1)
    both = np.concatenate([keys, v_b.reshape(heads, sizes.value_dim, sizes.latent_dim)], axis=1)
    return np.ascontiguousarray(both.reshape(-1, sizes.latent_dim))


def split_kv_b(config: ModelConfig, kv_b: Array) -> tuple[Array, Array]:
    """k_b and v_b of kv_b."""
    sizes, heads = config.latent, config.num_heads
    assert sizes is not None
    keys, values = np.split(kv_b.reshape(heads, -1, sizes.latent_dim), [sizes.plain_dim], axis=1)
    return keys.transpose(0, 2, 1).reshape(-1, sizes.plain_dim), values.reshape(-1, sizes.latent_dim)


def write_deepseek(
    directory: Path,
    config: ModelConfig,
    *,
    settings: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    num_files: int = 1,
    extra: Mapping[str, NDArray[Any]] | None = None,
    left_out: tuple[str, ...] = (),
) -> dict[str, Array]:
    """Write a Hugging Face directory and return its values by our names."""
    values = deepseek_values(config)
    stored: dict[str, NDArray[Any]] = {
        name: array.astype(dtype)
        for name, array in hugging_face_tensors(config, values).items()
        if name not in left_out
    }
    write_stored(directory, deepseek_settings(config) | dict(settings or {}), stored | dict(extra or {}), num_files)
    return values


def write_deepseek_gguf(
    path: Path,
    config: ModelConfig,
    *,
    is_old: bool = False,
    kinds: Mapping[str, GgmlType] | None = None,
    metadata: Mapping[str, Any] | None = None,
    raw: Mapping[str, Array] | None = None,
    blocks: Mapping[str, NDArray[np.uint8]] | None = None,
    left_out: tuple[str, ...] = (),
    num_parts: int = 1,
) -> dict[str, Array]:
    """Write a GGUF file and return the values that the gguf package reads back, by our names.

    `is_old`: as converters wrote it before they split kv_b. `kinds` gives the type of tensors by our name or by what
    they are, others are F32; `raw` replaces values, `blocks` the bytes of a tensor; `metadata` overrides entries, None
    leaves one out. Of several parts, `path` is the first.
    """
    values = deepseek_values(config) | dict(raw or {})
    entries = gguf_metadata(config) | deepseek_metadata(config, is_old=is_old) | dict(metadata or {})
    stored: dict[str, tuple[NDArray[Any], GgmlType]] = {}
    for ours, theirs, array in _gguf_tensors(config, values, is_old=is_old):
        kind = (kinds or {}).get(ours) or (kinds or {}).get(tensor_class(ours), GgmlType.F32)
        data = (blocks or {}).get(ours)
        if data is None:
            data = blocks_of(kind, array)
        if theirs not in left_out:
            stored[theirs] = data, kind
        with np.errstate(all="ignore"):
            read_back = np.asarray(dequantize(data, kind), np.float32)
        if theirs.endswith("attn_kv_b.weight"):
            values[ours], values[ours.removesuffix("k_b") + "v_b"] = split_kv_b(config, read_back)
        else:
            values[ours] = read_back.reshape(values[ours].shape)
    _write_parts(path, entries, stored, num_parts)
    return values


def _write_parts(path: Path, entries: Mapping[str, Any], stored: Mapping[str, Any], num_parts: int) -> None:
    if num_parts == 1:
        write_gguf_part(path, entries, stored)
        return
    stem = path.name.removesuffix(f"-00001-of-{num_parts:05}.gguf")
    for number in range(num_parts):
        split = {"split.no": number, "split.count": num_parts}
        share = {name: stored[name] for index, name in enumerate(stored) if index % num_parts == number}
        part = path.with_name(f"{stem}-{number + 1:05}-of-{num_parts:05}.gguf")
        write_gguf_part(part, (dict(entries) if number == 0 else {}) | split, share)


def _gguf_tensors(
    config: ModelConfig, values: Mapping[str, Array], *, is_old: bool
) -> Iterator[tuple[str, str, Array]]:
    """Our name, theirs, and the array with their dimensions."""
    mixture = config.mixture
    for ours, array in values.items():
        part, theirs = tensor_class(ours), partial(file_name, GGUF_NAMES, ours, config.num_layers)
        if is_old and part == "k_b":
            yield ours, theirs(part="kv_b"), join_kv_b(config, array, values[ours.removesuffix("k_b") + "v_b"])
        elif part in ("k_b", "v_b") and not is_old:
            yield ours, theirs(), array.reshape(config.num_heads, -1, array.shape[1])
        elif part.startswith("experts.") and mixture is not None:
            yield ours, theirs(), array.reshape(mixture.routing.num_experts, -1, array.shape[1])
        elif part not in ("k_b", "v_b"):
            yield ours, theirs(), array


def deepseek_metadata(config: ModelConfig, *, is_old: bool) -> dict[str, Any]:
    """The entries of a GGUF file beyond those that every architecture has."""
    name = "deepseek" if config.architecture == "deepseek" else "deepseek2"
    base = {
        f"{name}.{key.partition('.')[2]}": value
        for key, value in gguf_metadata(config).items()
        if key.startswith(f"{config.architecture}.")
    }
    own = _latent_metadata(config, is_old=is_old) | _mixture_metadata(config) | _rope_metadata(config)
    own["block_count"] = config.num_layers + config.num_mtp_layers
    own["nextn_predict_layers"] = config.num_mtp_layers or None
    return {"general.architecture": name} | base | {f"{name}.{key}": value for key, value in own.items()}


def _latent_metadata(config: ModelConfig, *, is_old: bool) -> dict[str, Any]:
    sizes = config.latent
    if sizes is None:
        return {"rope.dimension_count": config.head_dim}
    common = {
        "attention.q_lora_rank": sizes.query_latent_dim,
        "attention.kv_lora_rank": sizes.latent_dim,
        "rope.dimension_count": sizes.rope_dim,
    }
    head, value = sizes.plain_dim + sizes.rope_dim, sizes.value_dim
    if is_old:
        old = {"attention.head_count_kv": config.num_heads, "attention.key_length": head}
        return common | old | {"attention.value_length": value}
    cached = {"attention.key_length": sizes.latent_dim + sizes.rope_dim, "attention.value_length": sizes.latent_dim}
    return common | cached | {"attention.key_length_mla": head, "attention.value_length_mla": value}


def _mixture_metadata(config: ModelConfig) -> dict[str, Any]:
    mixture = config.mixture
    if mixture is None:
        return {}
    routing = mixture.routing
    return {
        "leading_dense_block_count": mixture.first_layer,
        "expert_count": routing.num_experts,
        "expert_used_count": routing.top_k,
        "expert_shared_count": mixture.num_shared,
        "expert_feed_forward_length": mixture.expert_size,
        "expert_weights_scale": routing.scale,
        "expert_weights_norm": routing.normalize,
        "expert_gating_func": 2 if routing.scoring == "sigmoid" else None,
        "expert_group_count": routing.num_groups,
        "expert_group_used_count": routing.top_groups,
    }


def _rope_metadata(config: ModelConfig) -> dict[str, Any]:
    scaling = config.rope_scaling
    if scaling is None:
        return {}
    return {
        "rope.scaling.type": scaling.kind,
        "rope.scaling.factor": scaling.factor,
        "rope.scaling.original_context_length": scaling.original_max_tokens,
        "rope.scaling.yarn_log_multiplier": 0.1 * scaling.mscale_all_dim,
    }
