from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import SetupError
from tailrace.models.registry import build_program
from tailrace.ops.load import load_backend
from tailrace.ops.packed import PackedTensor
from tailrace.weights.names import tensor_class
from tailrace.weights.synthetic import SyntheticFormat, SyntheticTensors
from tailrace.weights.synthetic_checkpoint import packed_bytes, synthetic_checkpoint
from tailrace.weights.synthetic_shapes import SHAPES
from tests.support.steps import limits, teacher_forced

TOY = SHAPES["toy-v2-lite"]

PUBLISHED_PARAMETERS = {
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-moe-16b": 16_375_728_128,
    "deepseek-llm-7b": 6_910_365_696,
    "deepseek-coder-1.3b": 1_346_471_936,
    "r1-distill-qwen-1.5b": 1_777_088_000,
    "r1-distill-qwen-7b": 7_615_616_512,
    "r1-distill-llama-8b": 8_030_261_248,
}


def parts(tensor: PackedTensor) -> list[NDArray[np.uint8]]:
    return [
        np.ascontiguousarray(part).view(np.uint8).reshape(-1)
        for part in (tensor.values, tensor.scales, tensor.offsets)
        if part is not None
    ]


def are_equal(one: PackedTensor, other: PackedTensor) -> bool:
    return all(np.array_equal(left, right) for left, right in zip(parts(one), parts(other), strict=True))


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
def test_shapes_have_as_many_parameters_as_the_models_they_are_of(name: str) -> None:
    weights = build_program(SHAPES[name]).weights.values()
    assert sum(int(np.prod(weight.shape)) for weight in weights) == PUBLISHED_PARAMETERS[name]


@pytest.mark.parametrize("wanted", ["bf16", "int8", "int4"])
def test_every_weight_has_its_shape_and_the_size_that_was_foretold(wanted: SyntheticFormat) -> None:
    tensors, weights = SyntheticTensors(TOY, wanted, seed=0), build_program(TOY).weights

    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: weight.shape for name, weight in weights.items()
    }
    assert {name: tensor.num_bytes for name, tensor in tensors.items()} == packed_bytes(build_program(TOY), wanted)


def test_int4_leaves_the_vocabulary_8_bits_and_what_decides_or_scales_all_of_them() -> None:
    tensors = SyntheticTensors(TOY, "int4", seed=0)
    wide = {tensor_class(name): tensor.format for name, tensor in tensors.items() if tensor.format != "q4"}

    norms = dict.fromkeys(("attention_norm", "mlp_norm", "kv_a_norm", "norm"), "f32")
    assert wide == {"embed": "q8", "head": "q8", "router": "f32", **norms}


def test_matrices_whose_inputs_fill_no_groups_stay_wide() -> None:
    odd = replace(TOY, intermediate_size=50)
    assert SyntheticTensors(odd, "int4", seed=0)["layers.0.down"].format == "bf16"


@pytest.mark.parametrize("wanted", ["bf16", "int8", "int4"])
def test_a_seed_gives_the_same_values_always_and_another_gives_others(wanted: SyntheticFormat) -> None:
    first, again, other = (SyntheticTensors(TOY, wanted, seed) for seed in (3, 3, 4))
    for name in first:
        assert are_equal(first[name], again[name])
        assert not are_equal(first[name], other[name])


def test_no_two_tensors_are_alike() -> None:
    tensors = SyntheticTensors(TOY, "int4", seed=0)
    assert not are_equal(tensors["layers.0.gate"], tensors["layers.0.up"])


@pytest.mark.parametrize(("wanted", "tolerance"), [("bf16", 0.42), ("int8", 0.03), ("int4", 0.03)])
def test_matrices_keep_activations_near_one(wanted: SyntheticFormat, tolerance: float) -> None:
    tensors = SyntheticTensors(TOY, wanted, seed=0)
    for name in ("layers.0.gate", "layers.3.experts.down", "layers.3.k_b", "head"):
        values = tensors[name].dequantize()
        assert values.std() * np.sqrt(values.shape[1]) == pytest.approx(0.6, rel=tolerance)
        assert abs(values.mean()) < 0.03 * values.std()


def test_norms_of_layers_have_a_loud_channel_in_every_third_group() -> None:
    norm = SyntheticTensors(TOY, "int4", seed=0)["layers.5.mlp_norm"].dequantize()
    assert np.flatnonzero(norm > 6).tolist() == [0, 96, 192]


def test_routers_use_all_experts_about_evenly() -> None:
    tensors = SyntheticTensors(TOY, "int4", seed=0)
    tokens = tensors["embed"].dequantize()
    normed = tokens / np.sqrt(np.square(tokens).mean(axis=1, keepdims=True))
    for layer in (1, 26):
        x = normed * tensors[f"layers.{layer}.mlp_norm"].dequantize()
        chosen = np.argsort(x @ tensors[f"layers.{layer}.router"].dequantize().T)[:, -4:]
        counts = Counter(chosen.reshape(-1).tolist())
        assert len(counts) == 16
        assert min(counts.values()) > len(tokens) / 4 / 2
        assert max(counts.values()) < len(tokens) / 4 * 2


def test_logits_are_finite_near_one_and_differ_from_token_to_token() -> None:
    of = limits(max_sequences=1)
    executable = load_backend("reference").load(build_program(TOY), SyntheticTensors(TOY, "int4", seed=0), of)
    logits = teacher_forced(executable, of, range(0, 960, 40), chunk_tokens=24)

    assert np.isfinite(logits).all()
    assert 0.3 < logits.std() < 3
    assert len(set(logits.argmax(axis=1).tolist())) > 12


def test_an_unknown_shape_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SetupError, match=r"no shape 'gpt-9' is known; known are deepseek-v2-lite, "):
        synthetic_checkpoint("gpt-9", "int4")


def test_a_checkpoint_has_a_name_of_its_own_for_each_seed_and_format() -> None:
    prints = {
        synthetic_checkpoint("toy-v2-lite", "int4").fingerprint,
        synthetic_checkpoint("toy-v2-lite", "int4", seed=1).fingerprint,
        synthetic_checkpoint("toy-v2-lite", "int8").fingerprint,
    }
    assert len(prints) == 3


def test_to_be_asked_whether_a_tensor_is_there_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyntheticTensors, "__getitem__", None)
    tensors = SyntheticTensors(TOY, "int4", 0)
    assert "layers.0.o" in tensors
    assert "layers.99.o" not in tensors
