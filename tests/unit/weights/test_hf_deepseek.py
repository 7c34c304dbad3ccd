"""DeepSeek models in Hugging Face directories: their settings, and tensors that we arrange otherwise."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import MixtureConfig, ModelConfig, RopeScaling
from tailrace.models.registry import build_program
from tailrace.ops.program import Routing
from tailrace.weights.fields import Fields
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.hf_config import read_config
from tests.unit.weights.deepseek_files import (
    DEEPSEEK,
    deepseek_settings,
    deepseek_values,
    hugging_face_tensors,
    write_deepseek,
)


def config_of(name: str, **settings: Any) -> ModelConfig:
    return read_config(Fields("config.json", deepseek_settings(DEEPSEEK[name]) | settings), has_head=True)


def routing_of(name: str, **settings: Any) -> Routing:
    mixture = config_of(name, **settings).mixture
    assert mixture is not None
    return mixture.routing


@pytest.mark.parametrize("name", DEEPSEEK)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_generation_is_read_as_it_was_written(tmp_path: Path, name: str, dtype: str) -> None:
    values = write_deepseek(tmp_path, DEEPSEEK[name], dtype=dtype, num_files=2)
    checkpoint = open_directory(tmp_path, mtp="MTP" in name)
    assert checkpoint.config == DEEPSEEK[name]
    assert checkpoint.tensors.keys() == values.keys()
    for ours, expected in values.items():
        found = checkpoint.tensors[ours]
        np.testing.assert_array_equal(found.dequantize(), expected)
        assert (found.shape, found.values.dtype) == (expected.shape, np.dtype(dtype))


@pytest.mark.parametrize("name", DEEPSEEK)
def test_the_model_finds_each_weight_it_asks_for(tmp_path: Path, name: str) -> None:
    write_deepseek(tmp_path, DEEPSEEK[name])
    checkpoint = open_directory(tmp_path)
    weights = build_program(checkpoint.config).weights
    assert {name: weight.shape for name, weight in weights.items()} == {
        name: tensor.shape for name, tensor in checkpoint.tensors.items()
    }


def fused(values: Mapping[str, NDArray[np.float32]], layer: int) -> dict[str, NDArray[np.float32]]:
    """All experts of a layer as two tensors: gate and up rows of each side by side, and down."""
    gate, up, down = (values[f"layers.{layer}.experts.{part}"].reshape(8, -1, 64) for part in ("gate", "up", "down"))
    name = f"model.layers.{layer}.mlp.experts"
    return {f"{name}.gate_up_proj": np.concatenate([gate, up], axis=1), f"{name}.down_proj": down.reshape(8, 64, 32)}


def test_experts_may_be_fused_as_transformers_holds_them(tmp_path: Path) -> None:
    config = DEEPSEEK["V3"]
    values = deepseek_values(config)
    by_itself = {name for name in hugging_face_tensors(config, values) if ".mlp.experts." in name}
    write_deepseek(tmp_path, config, extra=fused(values, 1) | fused(values, 2), left_out=tuple(by_itself))
    tensors = open_directory(tmp_path).tensors
    for name in (f"layers.{layer}.experts.{part}" for layer in (1, 2) for part in ("gate", "up", "down")):
        np.testing.assert_array_equal(tensors[name].dequantize(), values[name])


def test_a_missing_expert_is_named_as_the_file_would(tmp_path: Path) -> None:
    missing = "model.layers.2.mlp.experts.7.down_proj.weight"
    write_deepseek(tmp_path, DEEPSEEK["V3"], left_out=(missing,))
    with pytest.raises(CheckpointError, match=rf"tensor '{missing}' is missing"):
        open_directory(tmp_path)


@pytest.mark.parametrize(
    ("num_dense", "reason"),
    [
        (0, r"'model\.layers\.0\.mlp\.gate\.weight' is missing: by .* layer 0 is a mixture of experts, .* dense$"),
        (2, r"'model\.layers\.1\.mlp\.gate_proj\.weight' is missing: by .* layer 1 is dense, .* mixture of experts$"),
    ],
)
def test_experts_in_another_layer_than_the_config_says_name_the_setting(
    tmp_path: Path, num_dense: int, reason: str
) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3"], settings={"first_k_dense_replace": num_dense})
    with pytest.raises(CheckpointError, match=reason) as caught:
        open_directory(tmp_path)
    assert "by first_k_dense_replace and moe_layer_freq" in str(caught.value)


def test_an_mlp_beside_experts_is_refused_with_the_setting(tmp_path: Path) -> None:
    dense = {"model.layers.1.mlp.gate_proj.weight": np.zeros((96, 64), np.float32)}
    write_deepseek(tmp_path, DEEPSEEK["V3"], extra=dense)
    with pytest.raises(UnsupportedModel, match=r"no place in a deepseek_v3 model: by first_k_dense_replace .* layer 1"):
        open_directory(tmp_path)


def test_a_missing_tensor_of_the_right_sort_of_layer_blames_no_setting(tmp_path: Path) -> None:
    missing = "model.layers.0.mlp.gate_proj.weight"
    write_deepseek(tmp_path, DEEPSEEK["V3"], left_out=(missing,))
    with pytest.raises(CheckpointError, match=rf"tensor '{missing}' is missing$"):
        open_directory(tmp_path)


def test_an_expert_too_many_is_refused(tmp_path: Path) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3"], settings={"n_routed_experts": 6, "n_group": 3})
    with pytest.raises(CheckpointError, match=r"mlp\.gate\.weight' has shape \[8, 64\], the config asks for \[6, 64\]"):
        open_directory(tmp_path)
    write_deepseek(
        tmp_path / "more",
        DEEPSEEK["V3"],
        extra={"model.layers.1.mlp.experts.8.up_proj.weight": np.zeros((32, 64), "<f4")},
    )
    with pytest.raises(UnsupportedModel, match=r"experts\.8\.up_proj\.weight' has no place in a deepseek_v3 model"):
        open_directory(tmp_path / "more")


def test_an_expert_of_another_shape_is_named(tmp_path: Path) -> None:
    odd = {"model.layers.1.mlp.experts.3.up_proj.weight": np.zeros((16, 64), np.float32)}
    write_deepseek(tmp_path, DEEPSEEK["V3"], extra=odd)
    with pytest.raises(CheckpointError, match=r"experts\.3\.up_proj\.weight' has shape \[16, 64\]"):
        open_directory(tmp_path)


def test_both_generations_of_rope_settings_are_read() -> None:
    block = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10000.0}
    magnitudes = {"mscale": 0.707, "mscale_all_dim": 0.707}
    new = config_of("V3", rope_scaling=None, rope_theta=None, rope_parameters=block | magnitudes)
    assert new == config_of("V3")
    assert new.rope_scaling == RopeScaling(
        "yarn", factor=4.0, original_max_tokens=32, mscale=0.707, mscale_all_dim=0.707
    )
    assert config_of("V3", rope_scaling=None).rope_scaling is None


def test_pairs_are_neighbours_unless_a_v3_says_otherwise() -> None:
    assert config_of("V3").rope_interleaved
    assert not config_of("V3", rope_interleave=False).rope_interleaved
    assert config_of("V2", rope_interleave=False).rope_interleaved
    assert not config_of("MoE-16B").rope_interleaved


def test_what_a_v3_config_leaves_out_is_what_the_class_has() -> None:
    left_out = {"n_group": None, "topk_group": None, "norm_topk_prob": None, "routed_scaling_factor": None}
    silent = {"scoring_func": None, "topk_method": None, "first_k_dense_replace": None, "moe_layer_freq": None}
    mixture = config_of("V3", n_routed_experts=256, num_experts_per_tok=8, **left_out, **silent).mixture
    assert mixture == MixtureConfig(
        Routing(256, 8, "sigmoid", 8, 4, "top two", normalize=True, scale=2.5),
        expert_size=32,
        num_shared=1,
        first_layer=3,
        has_bias=True,
    )


def test_v2_ranks_groups_by_their_best_and_never_normalises() -> None:
    grouped = routing_of("V2", norm_topk_prob=True)
    assert grouped == Routing(6, 2, "softmax", 3, 2, "max", normalize=False, scale=16.0)
    assert routing_of("V2", topk_method="greedy") == replace(grouped, num_groups=1, top_groups=1)


def test_moe_16b_normalises_where_its_config_says_so() -> None:
    assert routing_of("MoE-16B") == Routing(4, 2, "softmax")
    assert routing_of("MoE-16B", norm_topk_prob=True).normalize


def test_v3_keeps_its_weights_as_they_are_where_told() -> None:
    assert not routing_of("V3", norm_topk_prob=False).normalize


def test_layers_of_experts_may_be_listed() -> None:
    first = {"first_k_dense_replace": 0}
    listed = config_of("V3.2", mlp_layer_types=["dense", "dense", "sparse"], **first).mixture
    assert listed is not None
    assert (listed.first_layer, listed.every) == (2, 1)
    with pytest.raises(UnsupportedModel, match="mlp_layer_types must be dense first"):
        config_of("V3.2", mlp_layer_types=["sparse", "dense", "sparse"])
    with pytest.raises(CheckpointError, match="mlp_layer_types is 3, it must be a list"):
        config_of("V3.2", mlp_layer_types=3)


def test_a_model_may_have_experts_in_every_second_layer_or_none() -> None:
    assert config_of("V3", n_routed_experts=None).mixture is None
    sparse = config_of("V3", moe_layer_freq=2).mixture
    assert sparse is not None
    assert [sparse.is_mixture(layer) for layer in range(5)] == [False, False, True, False, True]


def test_an_index_chooses_no_more_positions_than_there_are() -> None:
    sparse = config_of("V3.2", index_topk=1 << 30).sparse
    assert sparse is not None
    assert sparse.top_k == 128


@pytest.mark.parametrize("name", ["MoE-16B", "V2-Lite", "V3"])
def test_the_class_may_be_told_by_its_model_type(name: str) -> None:
    assert config_of(name, architectures=None) == config_of(name)


@pytest.mark.parametrize(
    "settings",
    [
        {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4"},
        {"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "quantization_config": {}},
        {"architectures": None, "model_type": "deepseek_v4"},
    ],
)
def test_v4_is_refused_with_what_is_missing(settings: dict[str, Any]) -> None:
    with pytest.raises(
        UnsupportedModel, match=r"config\.json: DeepSeek V4 and V4\.1 .*hyper-connections.*FP4"
    ) as caught:
        config_of("V3", **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        (
            "V3",
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            r"by method 'bitsandbytes' .*take DeepSeek's own files in fp8 \(with --quantize .*\), or a GGUF file$",
        ),
        (
            "V3.2",
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            r"by method 'bitsandbytes' .*take DeepSeek's own files in fp8 \(with --quantize int8 or int4\)$",
        ),
        ("V3", {"attention_bias": True}, "attention_bias is not supported with latent attention"),
        ("V3", {"scoring_func": "softmax"}, "scoring_func 'softmax' is not supported here; supported: sigmoid"),
        ("V3", {"topk_method": "greedy"}, "topk_method 'greedy' is not supported here; supported: noaux_tc"),
        ("V2", {"topk_method": "noaux_tc"}, "topk_method 'noaux_tc' .*supported: greedy, group_limited_greedy"),
        ("V2", {"scoring_func": "sigmoid"}, "scoring_func 'sigmoid' is not supported here; supported: softmax"),
        ("V3", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("V3", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported with latent attention"),
    ],
)
def test_features_that_would_change_the_answer_are_refused(name: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=rf"config\.json: .*{reason}"):
        config_of(name, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("V3", {"n_routed_experts": 0}, "n_routed_experts is 0, it must be between 1 and"),
        ("V3", {"n_routed_experts": 1 << 30}, "n_routed_experts is 1073741824, it must be between"),
        ("V3", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9, it must be between 1 and 8"),
        ("V3", {"num_experts_per_tok": 5}, "num_experts_per_tok is 5, it must be at most the 4 experts of topk_group"),
        ("V3", {"num_experts_per_tok": None}, "num_experts_per_tok is missing"),
        ("V3", {"n_group": 3}, "n_group is 3, it must be a divisor of the 8 experts"),
        ("V3", {"n_group": -1}, "n_group is -1, it must be between 1 and 8"),
        ("V3", {"n_group": 8}, "n_group is 8, it must be at most 4: a group's rank is that of its two best"),
        ("V3", {"n_group": None, "n_routed_experts": 12}, "n_group is missing; it must be a divisor of the 12 experts"),
        ("V3", {"topk_group": None, "n_group": 2}, "topk_group is missing; it must be between 1 and 2"),
        ("V3", {"topk_group": 5}, "topk_group is 5, it must be between 1 and 4"),
        ("V3", {"routed_scaling_factor": 0}, "routed_scaling_factor is 0, it must be positive"),
        ("V3", {"first_k_dense_replace": -1}, "first_k_dense_replace is -1"),
        ("V3", {"moe_layer_freq": 0}, "moe_layer_freq is 0"),
        ("V3", {"n_shared_experts": -2}, "n_shared_experts is -2"),
        ("V3", {"moe_intermediate_size": None}, "moe_intermediate_size is missing"),
        ("V3", {"kv_lora_rank": None}, "kv_lora_rank is missing"),
        ("V3", {"kv_lora_rank": 1 << 30}, "kv_lora_rank is 1073741824, it must be between"),
        ("V3", {"qk_rope_head_dim": 7}, "qk_rope_head_dim is 7, it must be even"),
        ("V3", {"qk_rope_head_dim": 1 << 30}, "qk_rope_head_dim is 1073741824, it must be between"),
        ("V3", {"v_head_dim": 0}, "v_head_dim is 0"),
        ("V3", {"num_attention_heads": 1 << 20}, "num_attention_heads is 1048576, it must be between"),
        ("V3.2", {"q_lora_rank": None}, "q_lora_rank is missing; it must be given: the index reads"),
        ("V3.2", {"index_head_dim": 4}, "index_head_dim is 4, it must be between 8"),
        ("V3.2", {"index_n_heads": None}, "index_n_heads is missing"),
        ("V3.2", {"index_topk": 0}, "index_topk is 0"),
    ],
)
def test_values_that_are_no_values_are_refused(name: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{reason}"):
        config_of(name, **settings)
