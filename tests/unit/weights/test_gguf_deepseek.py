"""DeepSeek models in GGUF files, of today and of the time before heads were split: settings and tensors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.weights.gguf_checkpoint import open_gguf
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek_gguf
from tests.unit.weights.model_files import GgmlType

IN_GGUF = [name for name in DEEPSEEK if name != "V3.2"]  # which has no architecture there
LATENT = [name for name in IN_GGUF if DEEPSEEK[name].latent]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def as_gguf(config: ModelConfig) -> ModelConfig:
    """GGUF holds float32, and MoE-16B's q and k with pairs as neighbours."""
    return replace(config, rms_norm_eps=float(np.float32(config.rms_norm_eps)), rope_interleaved=True)


def config_of(path: Path, name: str, **metadata: Any) -> ModelConfig:
    write_deepseek_gguf(
        path, DEEPSEEK[name], metadata={key.replace("__", "."): value for key, value in metadata.items()}
    )
    return open_gguf(path).config


@pytest.mark.parametrize("name", IN_GGUF)
@pytest.mark.parametrize("is_old", [False, True], ids=["new", "old"])
def test_every_generation_is_read_as_it_was_written(path: Path, name: str, is_old: bool) -> None:
    values = write_deepseek_gguf(path, DEEPSEEK[name], is_old=is_old)
    checkpoint = open_gguf(path, mtp="MTP" in name)
    assert checkpoint.config == as_gguf(DEEPSEEK[name])
    assert checkpoint.tensors.keys() == values.keys()
    for ours, expected in values.items():
        np.testing.assert_array_equal(checkpoint.tensors[ours].dequantize(), expected)


@pytest.mark.parametrize("name", LATENT)
def test_old_and_new_files_hold_the_same_model(tmp_path: Path, name: str) -> None:
    write_deepseek_gguf(tmp_path / "old.gguf", DEEPSEEK[name], is_old=True)
    write_deepseek_gguf(tmp_path / "new.gguf", DEEPSEEK[name])
    old, new = open_gguf(tmp_path / "old.gguf"), open_gguf(tmp_path / "new.gguf")
    assert old.config == new.config
    for ours in ("layers.0.k_b", "layers.2.v_b"):
        np.testing.assert_array_equal(old.tensors[ours].dequantize(), new.tensors[ours].dequantize())


def test_experts_are_views_of_the_file(path: Path) -> None:
    write_deepseek_gguf(path, DEEPSEEK["V3"], kinds={"experts.gate": GgmlType.Q8_0, "experts.down": GgmlType.Q4_1})
    tensors = open_gguf(path).tensors
    gate, down = tensors["layers.1.experts.gate"], tensors["layers.1.experts.down"]
    assert (gate.format, down.format) == ("q8", "q4")
    assert not gate.values.flags.owndata
    assert gate.values.base is not None
    assert gate.scales is not None
    assert not gate.scales.flags.owndata
    assert not down.values.flags.owndata


@pytest.mark.parametrize(
    "kind", [GgmlType.Q8_0, GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q5_0, GgmlType.Q5_1, GgmlType.BF16]
)
def test_stacked_experts_of_any_block_type_are_read(path: Path, kind: GgmlType) -> None:
    values = write_deepseek_gguf(path, DEEPSEEK["V2"], kinds={"experts.up": kind})
    found = open_gguf(path).tensors["layers.2.experts.up"].dequantize()
    # Q5_1 has no packed form: it is quantised again, to 8 bit.
    np.testing.assert_allclose(found, values["layers.2.experts.up"], atol=0.02 if kind == GgmlType.Q5_1 else 0)


def test_a_joined_kv_b_in_blocks_loses_only_what_turning_costs(path: Path) -> None:
    config = DEEPSEEK["V2"]
    assert config.latent is not None
    wide = replace(config, latent=replace(config.latent, plain_dim=32), head_dim=40)
    values = write_deepseek_gguf(path, wide, is_old=True, kinds={"k_b": GgmlType.Q8_0})
    checkpoint = open_gguf(path)
    k_b, v_b = checkpoint.tensors["layers.1.k_b"], checkpoint.tensors["layers.1.v_b"]
    assert (k_b.format, v_b.format) == ("q8", "q8")
    np.testing.assert_array_equal(v_b.dequantize(), values["layers.1.v_b"])
    np.testing.assert_allclose(k_b.dequantize(), values["layers.1.k_b"], atol=0.005)
    assert checkpoint.requantize_errors.keys() == {"layers.1.k_b"}


def test_cos_and_sin_stay_as_they_are_where_the_softmax_scale_grows(path: Path) -> None:
    scaling = config_of(path, "V2-Lite").rope_scaling
    assert scaling is not None
    assert (scaling.mscale, scaling.mscale_all_dim, scaling.attention_factor) == (0.707, 0.707, None)


def test_scoring_tells_v2_from_v3(path: Path) -> None:
    assert config_of(path, "V3").architecture == "deepseek_v3"
    assert config_of(path, "V2", deepseek2__expert_gating_func=1).architecture == "deepseek_v2"
    with pytest.raises(
        UnsupportedModel, match=r"expert_gating_func 3 is not known; known: 1 \(softmax\), 2 \(sigmoid\)"
    ):
        config_of(path, "V2", deepseek2__expert_gating_func=3)


def test_what_an_old_file_leaves_out_follows_from_the_rest(path: Path) -> None:
    left_out = dict.fromkeys(("expert_group_count", "expert_group_used_count", "expert_weights_norm"))
    silent = config_of(path, "V2-Lite", **{f"deepseek2__{key}": value for key, value in left_out.items()})
    assert silent == as_gguf(DEEPSEEK["V2-Lite"])
    assert config_of(path, "V2-Lite", deepseek2__expert_weights_scale=None).mixture == DEEPSEEK["V2-Lite"].mixture


@pytest.mark.parametrize(("gating", "reason"), [(1, "is 1, it must be"), (None, "is missing; it must be")])
def test_a_bias_of_softmax_contradicts_itself(path: Path, gating: int | None, reason: str) -> None:
    with pytest.raises(
        CheckpointError, match=rf"expert_gating_func {reason} 2 \(sigmoid\): .*blk\.1\.exp_probs_b\.bias"
    ):
        config_of(path, "V3", deepseek2__expert_gating_func=gating)


def test_a_v3_may_have_no_bias(path: Path) -> None:
    without = tuple(f"blk.{layer}.exp_probs_b.bias" for layer in range(3))
    write_deepseek_gguf(path, DEEPSEEK["V3"], left_out=without)
    mixture = open_gguf(path).config.mixture
    assert mixture is not None
    assert not mixture.has_bias


@pytest.mark.parametrize(
    ("name", "metadata", "reason"),
    [
        ("V3", {"deepseek2__attention__key_length_mla": 8}, "key_length_mla is 8, it must be between 9"),
        ("V3", {"deepseek2__attention__kv_lora_rank": None}, "kv_lora_rank is missing"),
        ("V3", {"deepseek2__attention__kv_lora_rank": 1 << 30}, "kv_lora_rank is 1073741824, it must be between"),
        ("V3", {"deepseek2__rope__dimension_count": 7}, "dimension_count is 7, it must be even"),
        ("V3", {"deepseek2__rope__dimension_count": 1 << 30}, "dimension_count is 1073741824, it must be between"),
        ("V3", {"deepseek2__attention__head_count": 8}, "attn_q_b.weight' has shape"),
        ("V3", {"deepseek2__expert_used_count": 9}, "expert_used_count is 9, it must be between 1 and 8"),
        (
            "V3",
            {"deepseek2__expert_used_count": 5},
            "expert_used_count is 5, .* the 4 experts of expert_group_used_count",
        ),
        ("V3", {"deepseek2__expert_count": 1 << 30}, "expert_count is 1073741824, it must be between"),
        ("V3", {"deepseek2__expert_count": 16}, r"shape \[8, 64\], the config asks for \[16, 64\]"),
        ("V3", {"deepseek2__expert_group_count": 3}, "expert_group_count is 3, it must be a divisor of the 8 experts"),
        ("V3", {"deepseek2__expert_group_count": 8}, "expert_group_count is 8, it must be at most 4"),
        ("V3", {"deepseek2__expert_group_used_count": 5}, "expert_group_used_count is 5, it must be between 1 and 4"),
        ("V3", {"deepseek2__expert_feed_forward_length": None}, "expert_feed_forward_length is missing"),
        (
            "V3",
            {"deepseek2__expert_feed_forward_length": 16},
            r"shape \[32, 64\], the config asks for \[16, 64\]",
        ),
        ("V3", {"deepseek2__nextn_predict_layers": 3}, "nextn_predict_layers is 3, it must be between 0 and 2"),
        ("V3", {"deepseek2__leading_dense_block_count": 2}, r"'blk\.1\.ffn_gate\.weight' is missing: by leading_dense"),
        ("V3", {"deepseek2__block_count": 2}, r"'blk\.2\..*: the model ends with layer 1, says block_count"),
        ("V3", {"deepseek2__attention__temperature_scale": 0.1}, "temperature_scale is not known"),
        ("MoE-16B", {"deepseek__rope__scaling__yarn_log_multiplier": 0.1}, "yarn_log_multiplier without latent"),
        ("V3", {"general__architecture": "deepseek4"}, r"DeepSeek V4 and V4\.1 are not supported"),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(
    path: Path, name: str, metadata: dict[str, Any], reason: str
) -> None:
    with pytest.raises((CheckpointError, UnsupportedModel), match=rf"model\.gguf.*{reason}") as caught:
        config_of(path, name, **metadata)
    assert "\n" not in str(caught.value)


def test_a_missing_tensor_is_named_as_the_file_would(path: Path) -> None:
    write_deepseek_gguf(path, DEEPSEEK["V3"], left_out=("blk.2.ffn_up_exps.weight",))
    with pytest.raises(CheckpointError, match=r"tensor 'blk\.2\.ffn_up_exps\.weight' is missing"):
        open_gguf(path)
