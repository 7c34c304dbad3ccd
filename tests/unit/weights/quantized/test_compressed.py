"""The layouts of compressed-tensors, bit for bit as the package itself reads them."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.bit_stream import pack
from tailrace.weights.quantized.coded import CodedTensor
from tailrace.weights.quantized.compressed import read_compressed
from tailrace.weights.safetensors import SafetensorsTensor
from tailrace.weights.stored import FileTensor
from tests.unit.weights.quantized.golden import MODULE, configs, expected, stored
from tests.unit.weights.quantized.raw_files import Raw, bf16, e4m3, raw, read_back

Array = NDArray[np.float32]
WEIGHT = f"{MODULE}.weight"


def composed(tensors: Mapping[str, SafetensorsTensor], config: Mapping[str, Any]) -> dict[str, FileTensor]:
    return read_compressed(Fields("config.json", config)).compose(tensors)


def golden(case: str) -> CodedTensor:
    found = composed(stored(case), configs()[case])
    assert found.keys() == {WEIGHT}
    tensor = found[WEIGHT]
    assert isinstance(tensor, CodedTensor)
    return tensor


def as_bf16(values: Array) -> Array:
    """Rounded to the nearest, the even one of two as near."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)


def assert_same(found: Array, case: str) -> None:
    """Bit for bit, after the one rounding of those that the package computes in less than float32."""
    dtype, values = expected(case)
    assert found.shape == values.shape
    match dtype:
        case "F32":
            np.testing.assert_array_equal(found, values)
        case "F16":
            np.testing.assert_array_equal(found.astype(np.float16), values)
        case _:
            known = (values.astype(np.uint32) << 16).view(np.float32)
            np.testing.assert_array_equal(as_bf16(found), known)


@pytest.mark.parametrize("case", configs())
def test_values_are_those_that_the_package_reads(case: str) -> None:
    tensor = golden(case)
    rows = tensor.shape[0]
    whole = tensor.rows(0, rows)
    assert_same(whole, case)
    np.testing.assert_array_equal(tensor.packed().dequantize(), whole)
    for begin in range(rows):
        for end in {begin + 1, (begin + 1 + rows) // 2, rows}:
            np.testing.assert_array_equal(tensor.rows(begin, end), whole[begin:end])
            part = tensor.cut(begin, end)
            assert (part.shape, part.format) == ((end - begin, tensor.shape[1]), tensor.format)
            np.testing.assert_array_equal(part.packed().dequantize(), whole[begin:end])
            np.testing.assert_array_equal(part.rows(end - begin - 1, end - begin), whole[end - 1 : end])
            part.release()


def format_of(case: str) -> str | None:
    """The format that holds a case exactly, by the rules: worked out from its name and settings alone."""
    (group,) = configs()[case]["config_groups"].values()
    weights, (dtype, values) = group["weights"], expected(case)
    columns = values.shape[1]
    fills = columns % 32 == 0 and (weights["group_size"] or columns) % 32 == 0
    if case == "mxfp4":
        return "q8"
    if not fills or weights["type"] == "float":
        return None
    if weights["num_bits"] <= 4 and dtype in ("F16", "BF16"):
        return "q4"
    return "q8" if weights["symmetric"] or weights["num_bits"] <= 7 else None


@pytest.mark.parametrize("case", configs())
def test_what_our_formats_hold_exactly_stays_packed(case: str) -> None:
    tensor = golden(case)
    assert tensor.format == format_of(case)
    packed = tensor.packed()
    assert (packed.format, packed.shape) == (tensor.format or "f32", tensor.shape)
    assert all(
        np.array_equal(part.astype(np.float16).astype(np.float32), part)
        for part in (packed.scales, packed.offsets)
        if part is not None and tensor.has_half_scales
    )
    if packed.scales is not None:
        assert packed.scales.shape == (tensor.shape[0], tensor.shape[1] // 32)
    assert tensor.as_matrix().shape == tensor.shape
    tensor.check()
    tensor.release()
    assert_same(tensor.rows(0, tensor.shape[0]), case)


def test_every_format_is_met_in_the_known_files() -> None:
    assert {format_of(case) for case in configs()} == {"q4", "q8", None}


def test_rows_may_be_read_by_many_at_once() -> None:
    tensor = golden("int3-asym-group")
    whole = tensor.rows(0, 33)
    with ThreadPoolExecutor(8) as pool:
        for row, values in enumerate(pool.map(lambda row: tensor.rows(row % 33, row % 33 + 1), range(330))):
            np.testing.assert_array_equal(values[0], whole[row % 33])


GENERATOR = np.random.default_rng(3)
SHAPE = (6, 64)
WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 16}


def config(weights: Mapping[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": WEIGHTS | dict(weights or {})}
    return {"format": "pack-quantized", "config_groups": {"group_0": group}, "ignore": ["lm_head"]} | settings


def words(numbers: NDArray[Any], bits: int) -> NDArray[np.int32]:
    stream = pack(numbers.astype(np.uint8), bits)
    return np.pad(stream, ((0, 0), (0, -stream.shape[1] % 4))).view("<i4")


NIBBLES = GENERATOR.integers(0, 16, SHAPE).astype(np.uint8)
SCALES = GENERATOR.uniform(0.01, 0.02, (6, 4)).astype(np.float32)


def packed_module(
    changed: Mapping[str, Raw | None] | None = None, name: str = MODULE, **more: Raw | None
) -> dict[str, Raw]:
    parts: dict[str, Raw | None] = {
        "weight_packed": raw(words(NIBBLES, 4)),
        "weight_scale": raw(SCALES),
        "weight_shape": raw(np.array(SHAPE, np.int64)),
        **(changed or {}),
        **more,
    }
    return {f"{name}.{part}": tensor for part, tensor in parts.items() if tensor is not None}


def opened(
    tmp_path: Path, tensors: Mapping[str, Raw], settings: Mapping[str, Any] | None = None
) -> dict[str, FileTensor]:
    return composed(read_back(tmp_path / "model.safetensors", tensors), config() if settings is None else settings)


def test_inputs_may_be_sorted_into_groups_in_any_order(tmp_path: Path) -> None:
    order = GENERATOR.permutation(np.repeat(np.arange(4, dtype=np.int32), 16))
    found = opened(tmp_path, packed_module(weight_g_idx=raw(order)))
    assert found.keys() == {WEIGHT}
    spelt_out = [[SCALES[i, order[j]] * (int(NIBBLES[i, j]) - 8) for j in range(64)] for i in range(6)]
    np.testing.assert_array_equal(found[WEIGHT].rows(0, 6), np.array(spelt_out, np.float32))
    assert found[WEIGHT].format is None


@pytest.mark.parametrize("group", [-1, 4, 1 << 30])
def test_an_order_that_names_no_group_is_damage(tmp_path: Path, group: int) -> None:
    order = np.repeat(np.arange(4, dtype=np.int32), 16)
    order[17] = group
    tensor = opened(tmp_path, packed_module(weight_g_idx=raw(order)))[WEIGHT]
    with pytest.raises(CheckpointError, match=rf"tensor '{MODULE}\.weight_g_idx' names groups beyond the 4 that have"):
        tensor.rows(0, 1)


def test_zeros_beside_symmetric_weights_are_zero(tmp_path: Path) -> None:
    assert opened(tmp_path, packed_module(weight_zero_point=raw(np.zeros((6, 4), np.int8)))).keys() == {WEIGHT}
    with pytest.raises(CheckpointError, match=r"weight_zero_point' is not zero everywhere, and .* says symmetric"):
        opened(tmp_path, packed_module(weight_zero_point=raw(np.ones((6, 4), np.int8))))


def test_how_activations_and_the_cache_would_be_quantised_is_left_aside(tmp_path: Path) -> None:
    inputs = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "symmetric": True}
    settings = config(
        kv_cache_scheme=inputs,
        transform_config={},
        sparsity_config={"format": "dense"},
        quantization_status="compressed",
    )
    settings["config_groups"]["group_0"] |= {"input_activations": inputs, "output_activations": inputs}
    settings["config_groups"]["group_1"] = {"targets": ["re:.*mlp"], "input_activations": inputs, "weights": None}
    one = raw(np.ones(1, np.float32))
    beside = {f"{MODULE}.{part}": one for part in ("input_scale", "input_global_scale", "output_scale")}
    beside |= {f"model.layers.0.self_attn.{part}": one for part in ("k_scale", "v_scale", "k_proj.output_scale")}
    kept = {"lm_head.weight": bf16(SCALES), "model.norm.weight": bf16(SCALES[0])}
    found = opened(tmp_path, packed_module() | beside | kept, settings)
    assert found.keys() == {WEIGHT, *kept}
    assert found["lm_head.weight"].format == "bf16"


def test_the_group_that_names_a_module_most_closely_has_it(tmp_path: Path) -> None:
    names = ["model.layers.0.a", "model.layers.0.b", "model.layers.1.a", "model.embed_tokens"]
    tensors: dict[str, Raw] = {}
    for name in names:
        tensors |= packed_module(name=name, weight_packed=raw(words(NIBBLES & 3, 2)), weight_scale=raw(SCALES[:, :2]))
    groups = {
        "of all": {"targets": ["Linear"], "weights": WEIGHTS | {"num_bits": 2, "group_size": 32}},
        "of some": {"targets": ["re:.*layers.0"], "weights": WEIGHTS | {"num_bits": 2, "strategy": "channel"}},
        "of one": {"targets": ["model.layers.0.a"], "weights": WEIGHTS | {"num_bits": 2, "strategy": "tensor"}},
        "of tables": {"targets": ["Embedding"], "weights": WEIGHTS | {"num_bits": 2, "strategy": "tensor"}},
    }
    tensors |= {f"{name}.weight_scale": raw(SCALES[:1, 0]) for name in ("model.layers.0.a", "model.embed_tokens")}
    tensors["model.layers.0.b.weight_scale"] = raw(SCALES[:, :1])
    found = opened(tmp_path, tensors, config(config_groups=groups))
    columns = {name: found[f"{name}.weight"] for name in names}
    blocks = {name: tensor.scales.grid for name, tensor in columns.items() if isinstance(tensor, CodedTensor)}
    assert {name: (grid.height, grid.width) for name, grid in blocks.items()} == {
        "model.layers.0.a": (6, 64),
        "model.layers.0.b": (1, 64),
        "model.layers.1.a": (1, 32),
        "model.embed_tokens": (6, 64),
    }


@pytest.mark.parametrize("ignore", [[MODULE], ["re:.*up_proj$"], ["Linear"]])
def test_codes_of_modules_that_are_not_to_have_any_are_refused(tmp_path: Path, ignore: list[str]) -> None:
    with pytest.raises(CheckpointError, match=rf"'{MODULE}\.weight_packed' is quantised, and 'ignore' of config\.json"):
        opened(tmp_path, packed_module(), config(ignore=ignore))
    no_target = config(config_groups={"g": {"targets": ["re:.*attn"], "weights": WEIGHTS}})
    with pytest.raises(
        CheckpointError, match=r"weight_packed' is quantised, and no group of config\.json has it among"
    ):
        opened(tmp_path, packed_module(), no_target)


def test_a_model_saved_before_it_was_compressed_is_refused(tmp_path: Path) -> None:
    uncompressed = {WEIGHT: bf16(SCALES), f"{MODULE}.weight_scale": raw(SCALES[:, :1])}
    with pytest.raises(UnsupportedModel, match=rf"tensor '{WEIGHT}' has dtype BF16 and scales .* before .* compressed"):
        opened(tmp_path, uncompressed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"weight_scale": None}, rf"'{MODULE}.weight_packed' has codes of I32, and '{MODULE}.weight_scale' is missing"),
        ({"weight_shape": None}, rf"has codes of I32, and '{MODULE}.weight_shape' is missing"),
        ({"weight_packed": raw(np.zeros((6, 8), np.int8))}, r"weight_packed' has dtype I8; supported: I32"),
        ({"weight_packed": raw(np.zeros((6, 9), np.int32))}, r"has shape \[6, 9\], what belongs to it needs \[6, 8\]"),
        ({"weight_packed": raw(np.zeros((2, 6, 8), np.int32))}, r"has shape \[2, 6, 8\], .* needs \[6, 8\]"),
        ({"weight_packed": Raw("I32", np.zeros((6, 8), "<i2"))}, r"weight_packed' has 96 bytes, its shape needs 192"),
        ({"weight_shape": raw(np.array([6, 1 << 60]))}, r"weight_packed' has shape \[6, 8\], .* needs \[6, \d{18}\]"),
        ({"weight_shape": raw(np.array([0, 64]))}, r"weight_shape' says \[0, 64\], which is no matrix's shape"),
        ({"weight_shape": raw(np.array([6, -64]))}, r"weight_shape' says \[6, -64\]"),
        ({"weight_shape": raw(np.array([6, 2, 32]))}, r"weight_shape' has shape \[3\], what belongs to it needs \[2\]"),
        ({"weight_shape": raw(np.array([6.0, 64.0]))}, r"weight_shape' has dtype F64; supported: I64, I32"),
        ({"weight_scale": raw(SCALES[:, :3])}, r"weight_scale' has shape \[6, 3\], what belongs to it needs \[6, 4\]"),
        ({"weight_scale": raw(np.ones((6, 4), np.int32))}, r"weight_scale' has dtype I32; supported: F32, F16, BF16"),
        ({"weight_g_idx": raw(np.zeros(63, np.int32))}, r"weight_g_idx' has shape \[63\], .* needs \[64\]"),
        ({"weight_zero_point": raw(np.zeros((1, 4), np.int32))}, r"weight_zero_point' has dtype I32; supported: I8"),
    ],
)
def test_parts_that_do_not_fit_are_named(tmp_path: Path, changed: dict[str, Raw | None], reason: str) -> None:
    with pytest.raises(ModelError, match=rf"model\.safetensors: .*{reason}") as caught:
        opened(tmp_path, packed_module(changed))
    assert "\n" not in str(caught.value)


def test_asymmetric_weights_need_zeros(tmp_path: Path) -> None:
    asymmetric = config({"symmetric": False})
    with pytest.raises(CheckpointError, match=rf"has codes of I32, and '{MODULE}\.weight_zero_point' is missing"):
        opened(tmp_path, packed_module(), asymmetric)
    with pytest.raises(CheckpointError, match=r"weight_zero_point' has shape \[6, 4\], .* needs \[1, 4\]"):
        opened(tmp_path, packed_module(weight_zero_point=raw(np.zeros((6, 4), np.int32))), asymmetric)


def test_groups_fill_the_rows_of_a_matrix(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has 64 inputs, and group_size 48 of config\.json: .* is no divisor"):
        opened(tmp_path, packed_module(), config({"group_size": 48}))


@pytest.mark.parametrize("divisor", [0.0, np.nan, np.inf])
def test_a_divisor_that_is_none_is_damage(tmp_path: Path, divisor: float) -> None:
    fours = {"num_bits": 4, "type": "float", "strategy": "tensor_group"}
    tensors = packed_module(
        weight_packed=raw(np.zeros((6, 32), np.uint8)),
        weight_scale=e4m3(np.full((6, 4), 0x38, np.uint8)),
        weight_shape=None,
        weight_global_scale=raw(np.array([divisor], np.float32)),
    )
    with pytest.raises(
        CheckpointError, match=r"weight_global_scale' is what scales are divided by, and is zero or not"
    ):
        opened(tmp_path, tensors, config(fours, format="nvfp4-pack-quantized"))


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_scales_that_are_no_numbers_are_damage(tmp_path: Path, code: int) -> None:
    fours = {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}
    scales = np.full((6, 2), 0x38, np.uint8)
    scales[3, 1] = code
    tensors = packed_module(
        weight_packed=raw(np.zeros((6, 32), np.uint8)),
        weight_scale=e4m3(scales),
        weight_shape=None,
        weight_global_scale=raw(np.array(2, np.float32)),
    )
    tensor = opened(tmp_path, tensors, config(fours, format="nvfp4-pack-quantized"))[WEIGHT]
    assert not tensor.rows(0, 3).any()
    with pytest.raises(CheckpointError, match=r"weight_scale' holds scales that are not finite"):
        tensor.rows(3, 4)
