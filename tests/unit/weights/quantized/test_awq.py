"""AWQ: eight outputs to a word in an order of its own, and zero points as they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.ops.packed import has_half_scales
from tailrace.weights.composed import cut
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.awq import read_awq
from tailrace.weights.stored import FileTensor
from tests.unit.weights.quantized.grouped_files import awq_tensors, compose, grouped, named
from tests.unit.weights.quantized.raw_files import bf16, raw
from tests.unit.weights.test_composed import assert_reads_alike

SETTINGS = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}


def composed(path: Path, tensors: dict[str, Any], **settings: Any) -> FileTensor:
    return compose(path / "m.safetensors", SETTINGS | settings, named("x", tensors))["x.weight"]


def test_a_word_has_the_published_order(tmp_path: Path) -> None:
    codes = {"qweight": np.full((32, 1), 0x75316420, np.int32), "scales": np.ones((1, 8), np.float16)}
    values = composed(tmp_path, codes | {"qzeros": np.zeros((1, 1), np.int32)}).rows(0, 8)
    np.testing.assert_array_equal(values, np.repeat(np.arange(8)[:, None], 32, axis=1))
    values = composed(tmp_path, codes | {"qzeros": np.full((1, 1), 0x75316420, np.int32)}).rows(0, 8)
    np.testing.assert_array_equal(values, np.zeros((8, 32)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("shape", "group_size", "format_"),
    [
        ((8, 32), 32, "q4"),
        ((40, 96), 32, "q4"),
        ((24, 128), 64, "q4"),
        ((72, 256), 128, "q4"),
        ((16, 96), -1, "q4"),
        ((16, 48), 16, None),
        ((16, 50), -1, None),
        ((16, 27), 9, None),
    ],
)
def test_values_are_those_of_the_formula(
    tmp_path: Path, shape: tuple[int, int], group_size: int, format_: str | None, dtype: str
) -> None:
    matrix = grouped(*shape, group_size=group_size, dtype=dtype)
    found = composed(tmp_path, awq_tensors(matrix), group_size=group_size)
    assert (found.shape, found.format, found.stored_format) == (shape, format_, "AWQ 4-bit")
    assert found.packed().format == (format_ or "f32")
    # With scales of 32 bits, the sum that packed formats make of product and offset is rounded once more.
    np.testing.assert_allclose(assert_reads_alike(found), matrix.values, rtol=0, atol=0 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("format_", ["float16", "bfloat16", "float32"])
def test_scales_are_read_in_every_width(tmp_path: Path, format_: str) -> None:
    matrix = grouped(16, 64, dtype="float32")
    matrix.scales[:] = np.exp2(np.arange(-20, 12).reshape(2, 16))
    tensors = awq_tensors(matrix)
    scales = tensors["scales"]
    narrow = {"float16": raw(scales.astype(np.float16)), "bfloat16": bf16(scales), "float32": raw(scales)}
    found = composed(tmp_path, tensors | {"scales": narrow[format_]})
    np.testing.assert_array_equal(found.rows(0, 16), matrix.values)


def test_scales_stay_narrow_where_that_loses_nothing(tmp_path: Path) -> None:
    """Products with a power of two are exact in 16 bits."""
    for is_symmetric, width in ((True, "float16"), (False, "float32")):
        matrix = grouped(16, 64, is_symmetric=is_symmetric)
        found = composed(tmp_path, awq_tensors(matrix))
        packed = found.packed()
        assert packed.scales is not None
        assert packed.offsets is not None
        assert (packed.scales.dtype.name, packed.offsets.dtype.name) == (width, width)
        assert found.has_half_scales == is_symmetric == has_half_scales(packed)


def test_one_zero_point_that_is_no_power_of_two_is_enough(tmp_path: Path) -> None:
    matrix = grouped(16, 64, is_symmetric=True)
    matrix.zeros[1, 13] = 7
    assert not composed(tmp_path, awq_tensors(matrix)).has_half_scales


@pytest.mark.parametrize(("begin", "end"), [(0, 5), (3, 21), (16, 24), (22, 24)])
def test_some_rows_are_a_matrix_too(tmp_path: Path, begin: int, end: int) -> None:
    matrix = grouped(24, 64)
    part = cut(composed(tmp_path, awq_tensors(matrix)), begin, end)
    assert (part.shape, part.format, part.has_half_scales) == ((end - begin, 64), "q4", False)
    np.testing.assert_array_equal(assert_reads_alike(part), matrix.values[begin:end])
    np.testing.assert_array_equal(cut(part, 1, 2).rows(0, 1), matrix.values[begin + 1 : begin + 2])
    part.release()
    np.testing.assert_array_equal(part.packed().dequantize(), matrix.values[begin:end])


def test_without_zero_points_zero_is_in_the_middle(tmp_path: Path) -> None:
    matrix = grouped(16, 64, is_symmetric=True)
    tensors = awq_tensors(matrix)
    del tensors["qzeros"]
    np.testing.assert_array_equal(composed(tmp_path, tensors, zero_point=False).rows(0, 16), matrix.values)
    with pytest.raises(CheckpointError, match=r"m\.safetensors: tensor 'x.qweight' needs tensor 'x.qzeros', which is"):
        composed(tmp_path, tensors)


def test_zero_points_that_are_there_are_obeyed(tmp_path: Path) -> None:
    matrix = grouped(16, 64)
    np.testing.assert_array_equal(
        composed(tmp_path, awq_tensors(matrix), zero_point=False).rows(3, 5), matrix.values[3:5]
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"version": "gemv"}, "AWQ in version 'gemv' is not supported; supported: gemm"),
        ({"version": "GEMV_fast"}, "AWQ in version 'GEMV_fast' is not supported"),
        ({"version": "marlin"}, "AWQ in version 'marlin' is not supported"),
        ({"format": "gemv"}, "AWQ in version 'gemv' is not supported"),
        ({"checkpoint_format": "llm-awq"}, "AWQ in version 'llm-awq' is not supported"),
        ({"bits": 3}, "AWQ of 3 bits is not supported; supported: 4"),
    ],
)
def test_other_layouts_are_refused_by_name(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"config.json: {reason}"):
        read_awq(Fields("config.json", settings))


def test_settings_are_those_of_every_writer() -> None:
    assert read_awq(Fields("c", {"version": "GEMM", "group_size": 64})) == read_awq(
        Fields("c", {"checkpoint_format": "gemm", "bits": 4, "group_size": 64, "zero_point": True})
    )


@pytest.mark.parametrize("size", [0, -2, "128", 1.5, True, 1 << 40])
def test_a_group_size_that_cannot_be_is_refused(size: object) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: group_size is "):
        read_awq(Fields("config.json", {"group_size": size}))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"scales": None}, "'x.qweight' needs tensor 'x.scales', which is missing"),
        ({"qweight": None}, "'x.(qzeros|scales)' belongs to tensor 'x.qweight', which is missing"),
        (
            {"qweight": np.zeros((64, 3), np.int32)},
            r"'x.qweight' has shape \[64, 3\], .* needs \[64, 2\]",
        ),
        ({"qweight": np.zeros((96, 2), np.int32)}, r"'x.scales' has shape \[2, 16\], .* \[3, 16\]"),
        ({"qweight": np.zeros((63, 2), np.int32)}, "'x.qweight': group_size 32 does not divide its 63 inputs"),
        ({"qweight": np.zeros((64, 2), np.float32)}, "'x.qweight' has dtype F32; supported: I32"),
        ({"qweight": np.zeros(128, np.int32)}, r"'x.qweight' has shape \[128\]; it must be a matrix"),
        ({"scales": np.zeros(16, np.float16)}, r"'x.scales' has shape \[16\]; it must be a matrix"),
        ({"scales": np.zeros((2, 12), np.float16)}, "'x.scales': 12 outputs do not fill words of 8"),
        ({"scales": np.zeros((2, 16), np.int32)}, "'x.scales' has dtype I32; supported: F16, BF16, F32"),
        ({"qzeros": np.zeros((1, 2), np.int32)}, r"'x.qzeros' has shape \[1, 2\]"),
        ({"qzeros": np.zeros((2, 2), np.int64)}, "'x.qzeros' has dtype I64"),
        ({"weight": np.zeros((16, 64), np.float32)}, "'x.qweight' is there, and so is 'x.weight'"),
    ],
)
def test_damage_is_named(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    tensors = awq_tensors(grouped(16, 64)) | changed
    present = {name: array for name, array in tensors.items() if array is not None}
    with pytest.raises((CheckpointError, UnsupportedModel), match=rf"m\.safetensors: tensor {reason}"):
        composed(tmp_path, present)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scales_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    matrix = grouped(16, 64)
    matrix.scales[1, 5] = value
    found = composed(tmp_path, awq_tensors(matrix))
    for read in (found.packed, lambda: found.rows(5, 6)):
        with pytest.raises(CheckpointError, match=r"'x\.scales' holds values that are not finite"):
            read()
    assert np.isfinite(found.rows(6, 8)).all()
