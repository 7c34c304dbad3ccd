"""Matrices in 8-bit floats: DeepSeek's layout, and those with one scale for a row or the whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.ops.narrow import widen
from tailrace.weights.composed import cut
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.fp8 import read_fp8
from tailrace.weights.stored import FileTensor, raw_parts
from tests.support.e4m3 import decode
from tests.unit.weights.quantized.fp8_files import AS_PUBLISHED, Blocks
from tests.unit.weights.quantized.golden import MODULE, expected, stored
from tests.unit.weights.quantized.raw_files import Raw, bf16, e4m3, raw, read_back

GENERATOR = np.random.default_rng(5)
W, SCALE = "a.weight", "a.weight_scale_inv"


def codes(rows: int, columns: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Every code there is, but for those that are no numbers."""
    drawn = GENERATOR.integers(0, 0x7F, (rows, columns)).astype(np.uint8)
    return drawn | (GENERATOR.integers(0, 2, (rows, columns)) << 7).astype(np.uint8)


def scales(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return GENERATOR.uniform(1e-4, 1e-2, shape).astype(np.float32)


def composed(
    tmp_path: Path, tensors: Mapping[str, Raw], settings: Mapping[str, Any] = AS_PUBLISHED
) -> dict[str, FileTensor]:
    scheme = read_fp8(Fields("config.json", settings))
    return scheme.compose(read_back(tmp_path / "model.safetensors", tensors))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (128, 128), (127, 129), (129, 127), (300, 416), (576, 64)])
def test_each_value_is_multiplied_with_the_scale_of_its_block(tmp_path: Path, shape: tuple[int, int]) -> None:
    blocks = Blocks(codes(*shape), scales(-(-shape[0] // 128), -(-shape[1] // 128)))
    found = composed(tmp_path, {SCALE: raw(blocks.scales), W: e4m3(blocks.codes)})
    assert found.keys() == {W}
    tensor = found[W]
    assert (tensor.shape, tensor.stored_format, tensor.format) == (shape, "F8_E4M3", None)
    np.testing.assert_array_equal(tensor.packed().dequantize(), blocks.values)
    for begin in range(0, shape[0], 61):
        for end in {begin + 1, min(begin + 130, shape[0]), shape[0]}:
            np.testing.assert_array_equal(tensor.rows(begin, end), blocks.values[begin:end])


@pytest.mark.parametrize("case", ["deepseek-ragged", "deepseek-narrow", "deepseek-low"])
def test_values_are_those_that_compressed_tensors_reads(case: str) -> None:
    found = read_fp8(Fields("config.json", AS_PUBLISHED)).compose(stored(case))
    assert found.keys() == {f"{MODULE}.weight"}
    dtype, values = expected(case)
    assert dtype == "F32"
    np.testing.assert_array_equal(found[f"{MODULE}.weight"].rows(0, len(values)), values)


@pytest.mark.parametrize("shape", [(1, 32), (300, 416), (129, 96)])
@pytest.mark.parametrize("block", [[128, 128], [1, 32], [7, 1 << 20], None])
def test_native_code_reads_the_same_where_scales_are_for_whole_groups(
    tmp_path: Path, shape: tuple[int, int], block: list[int] | None
) -> None:
    height, width = block or (shape[0], shape[1])
    factors = scales(-(-shape[0] // height), -(-shape[1] // width))
    settings = {} if block is None else {"weight_block_size": block}
    tensor = composed(tmp_path, {W: e4m3(codes(*shape)), SCALE: raw(factors)}, settings)[W]
    for begin, end in ((0, shape[0]), (shape[0] // 2, shape[0] // 2 + 1)):
        (part,) = raw_parts(cut(tensor, begin, end)) or ()
        np.testing.assert_array_equal(widen(part), tensor.rows(begin, end))


@pytest.mark.parametrize(("columns", "width"), [(40, 128), (64, 16), (96, 80)])
def test_native_code_reads_nothing_whose_scales_end_inside_a_group(tmp_path: Path, columns: int, width: int) -> None:
    factors = scales(1, -(-columns // width))
    settings = {"weight_block_size": [3, width]}
    tensor = composed(tmp_path, {W: e4m3(codes(3, columns)), SCALE: raw(factors)}, settings)[W]
    assert raw_parts(tensor) is None


def test_blocks_are_as_large_as_the_config_says(tmp_path: Path) -> None:
    drawn, factors = codes(7, 10), scales(3, 3)
    found = composed(tmp_path, {W: e4m3(drawn), SCALE: raw(factors)}, {"weight_block_size": [3, 4]})
    expected = [[decode(drawn)[i, j] * np.float64(factors[i // 3, j // 4]) for j in range(10)] for i in range(7)]
    np.testing.assert_array_equal(found[W].packed().values, np.array(expected, np.float32))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (6,), (6, 1)])
@pytest.mark.parametrize("name", ["a.weight_scale", "a.weight_scale_inv"])
def test_without_blocks_a_scale_is_one_of_a_row_or_of_all(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    drawn, factors = codes(6, 40), scales(*shape)
    beside = {"a.input_scale": raw(scales()), "a.activation_scale": raw(scales()), "b.k_scale": raw(scales(1))}
    found = composed(tmp_path, {W: e4m3(drawn), name: raw(factors), **beside}, {"activation_scheme": "static"})
    assert found.keys() == {W}
    expected = decode(drawn) * factors.reshape(-1, 1).astype(np.float64)
    np.testing.assert_array_equal(found[W].rows(0, 6), expected.astype(np.float32))


def test_scales_may_be_half_as_wide_or_exponents_alone(tmp_path: Path) -> None:
    drawn, exponents = codes(130, 5), np.array([[1], [254 - 20]], np.uint8)
    for scale, factors in (
        (bf16(np.array([[1.5], [0.25]], np.float32)), [1.5, 0.25]),
        (raw(np.array([[1.5], [0.25]], np.float16)), [1.5, 0.25]),
        (raw(exponents, "F8_E8M0"), [2.0**-126, 2.0**107]),
    ):
        tensor = composed(tmp_path, {W: e4m3(drawn), SCALE: scale}, AS_PUBLISHED | {"scale_fmt": "ue8m0"})[W]
        expected = decode(drawn) * np.repeat(factors, [128, 2])[:, None]
        np.testing.assert_array_equal(tensor.rows(0, 130), expected.astype(np.float32))


def test_what_is_no_8_bit_float_stays_what_it_is(tmp_path: Path) -> None:
    kept = {"norm.weight": bf16(scales(9)), "b.weight": bf16(scales(4, 4)), "b.weight_scale_inv": raw(scales(1, 1))}
    found = composed(tmp_path, kept)
    assert found.keys() == kept.keys(), "a scale without codes is nobody's, and refused as such"
    assert (found["b.weight"].format, found["b.weight"].stored_format) == ("bf16", "BF16")


DAMAGE: dict[str, tuple[dict[str, Raw | None], str]] = {
    "no scale": ({SCALE: None}, rf"tensor '{W}' has codes of F8_E4M3, and '{SCALE}' is missing"),
    "a wider scale": ({SCALE: raw(np.ones((2, 3)))}, rf"tensor '{SCALE}' has dtype F64; supported: F32"),
    "a scale of integers": ({SCALE: raw(np.ones((2, 3), np.int32))}, rf"'{SCALE}' has dtype I32; supported: F32"),
    "another grid": ({SCALE: raw(scales(3, 2))}, rf"'{SCALE}' has shape \[3, 2\], .* needs \[2, 3\]"),
    "a scale for each row": ({SCALE: raw(scales(200, 1))}, rf"'{SCALE}' has shape \[200, 1\], .* needs \[2, 3\]"),
    "a scale for all": ({SCALE: raw(scales(1))}, rf"'{SCALE}' has shape \[1\], .* needs \[2, 3\]"),
    "no scales": ({SCALE: raw(scales(0, 3))}, rf"'{SCALE}' has shape \[0, 3\], .* needs \[2, 3\]"),
    "three dimensions": ({W: e4m3(codes(6, 4).reshape(2, 3, 4))}, rf"'{W}' has codes and shape \[2, 3, 4\]"),
    "a vector": ({W: e4m3(codes(6, 4).reshape(24))}, rf"'{W}' has codes and shape \[24\]"),
    "no values": ({W: e4m3(codes(0, 4))}, rf"'{W}' has codes and shape \[0, 4\]"),
    "too few bytes": ({W: Raw("F8_E4M3", np.zeros((200, 300), "<u2"))}, rf"'{W}' has 120000 bytes, its shape needs 60"),
}
"""What is changed in a sound file, and the complaint."""


def sound() -> dict[str, Raw]:
    return {W: e4m3(codes(200, 300)), SCALE: raw(scales(2, 3))}


@pytest.mark.parametrize("name", DAMAGE)
def test_parts_that_do_not_fit_are_named(tmp_path: Path, name: str) -> None:
    changed, reason = DAMAGE[name]
    tensors = {name: tensor for name, tensor in (sound() | changed).items() if tensor is not None}
    with pytest.raises(ModelError, match=rf"model\.safetensors: .*{reason}") as caught:
        composed(tmp_path, tensors)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 3e38])
def test_scales_that_make_no_finite_values_are_damage(tmp_path: Path, wrong: float) -> None:
    factors = scales(2, 3)
    factors[1, 2] = wrong
    tensor = composed(tmp_path, sound() | {SCALE: raw(factors)})[W]
    assert np.isfinite(tensor.rows(0, 128)).all()
    with pytest.raises(CheckpointError, match=rf"tensor '{SCALE}' holds scales that are not finite, or too large"):
        tensor.rows(127, 129)
    with pytest.raises(CheckpointError, match=rf"tensor '{SCALE}' holds scales"):
        tensor.packed()


@pytest.mark.parametrize("code", [0x7F, 0xFF])
def test_codes_that_are_no_numbers_are_damage(tmp_path: Path, code: int) -> None:
    drawn = codes(200, 300)
    drawn[150, 299] = code
    tensor = composed(tmp_path, sound() | {W: e4m3(drawn)})[W]
    assert np.isfinite(tensor.rows(0, 150)).all()
    with pytest.raises(CheckpointError, match=rf"tensor '{W}' holds values that are not numbers"):
        tensor.rows(149, 151)


@pytest.mark.parametrize(
    "block", [128, [], [128], [128, 0], [128, -1], [128, True], [128, 1.0], [1 << 21, 1], "8x8", {}]
)
def test_blocks_that_are_none_are_refused(block: object) -> None:
    with pytest.raises(
        CheckpointError, match=r"config\.json: weight_block_size is .*, it must be two integers between"
    ):
        read_fp8(Fields("config.json", AS_PUBLISHED | {"weight_block_size": block}))


def test_another_kind_of_8_bits_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match=r"config\.json: fmt 'e5m2' is not supported; supported: e4m3"):
        read_fp8(Fields("config.json", AS_PUBLISHED | {"fmt": "e5m2"}))
