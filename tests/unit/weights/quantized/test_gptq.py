"""GPTQ: codes along inputs and zero points along outputs, without gaps; inputs in whatever groups the file says."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.ops.packed import has_half_scales
from tailrace.weights.composed import cut
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.gptq import read_gptq
from tailrace.weights.stored import FileTensor
from tests.unit.weights.quantized.grouped_files import Grouped, compose, gptq_tensors, grouped, named
from tests.unit.weights.test_composed import assert_reads_alike

SETTINGS = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False}


def composed(path: Path, tensors: dict[str, Any], **settings: Any) -> FileTensor:
    return compose(path / "m.safetensors", SETTINGS | settings, named("x", tensors))["x.weight"]


def test_a_word_has_the_published_order(tmp_path: Path) -> None:
    tensors = {
        "qweight": np.full((4, 8), 0x76543210, np.int32),
        "qzeros": np.full((1, 1), 0x76543210, np.int32),
        "scales": np.ones((1, 8), np.float16),
    }
    inputs, outputs = np.arange(32) % 8, np.arange(8)
    expected = inputs[None, :] - outputs[:, None]
    np.testing.assert_array_equal(composed(tmp_path, tensors).rows(0, 8), expected - 1)
    np.testing.assert_array_equal(composed(tmp_path, tensors, checkpoint_format="gptq_v2").rows(0, 8), expected)


def test_three_bits_go_over_the_borders_of_words(tmp_path: Path) -> None:
    """Inputs 0 to 31 hold 0 to 7 four times over."""
    number = sum(index % 8 << 3 * index for index in range(32))
    words = [number >> 32 * word & 0xFFFFFFFF for word in range(3)]
    tensors = {
        "qweight": np.repeat(np.array(words, np.uint32)[:, None], 32, axis=1).view(np.int32),
        "qzeros": np.zeros((1, 3), np.int32),
        "scales": np.ones((1, 32), np.float16),
    }
    values = composed(tmp_path, tensors, bits=3, checkpoint_format="gptq_v2").rows(30, 31)
    np.testing.assert_array_equal(values[0], np.arange(32) % 8)


@pytest.mark.parametrize("is_second", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("shape", "group_size", "has_runs"),
    [
        ((32, 32), 32, True),
        ((96, 160), 64, True),
        ((64, 128), 128, True),
        ((64, 96), -1, True),
        ((64, 96), 1024, True),
        ((32, 64), 16, False),
        ((32, 96), 48, False),
        ((19, 45), 32, False),
        ((5, 64), 32, True),
        ((1, 33), -1, False),
    ],
)
def test_values_are_those_of_the_formula(
    tmp_path: Path, shape: tuple[int, int], *, group_size: int, has_runs: bool, bits: int, is_second: bool
) -> None:
    matrix = grouped(*shape, bits=bits, group_size=group_size)
    tensors = gptq_tensors(matrix, stored_less=0 if is_second else 1)
    format_ = "gptq_v2" if is_second else "gptq"
    found = composed(tmp_path, tensors, bits=bits, group_size=group_size, checkpoint_format=format_)
    assert (found.shape, found.stored_format) == (shape, f"GPTQ {bits}-bit")
    assert found.format == ("q4" if has_runs and bits < 8 else None)
    np.testing.assert_array_equal(assert_reads_alike(found), matrix.values)


@pytest.mark.parametrize(("begin", "end"), [(0, 5), (3, 21), (16, 24), (22, 24)])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_some_rows_are_a_matrix_too(tmp_path: Path, bits: int, begin: int, end: int) -> None:
    matrix = grouped(24, 64, bits=bits)
    part = cut(composed(tmp_path, gptq_tensors(matrix), bits=bits), begin, end)
    assert part.shape == (end - begin, 64)
    np.testing.assert_array_equal(assert_reads_alike(part), matrix.values[begin:end])


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("stored_less", [0, 1])
def test_symmetric_zero_points_are_in_the_middle_however_they_are_stored(
    tmp_path: Path, bits: int, stored_less: int
) -> None:
    """Some writers say the first format and store the second's numbers."""
    matrix = grouped(64, 96, bits=bits, is_symmetric=True)
    found = composed(tmp_path, gptq_tensors(matrix, stored_less=stored_less), bits=bits, sym=True)
    assert found.format == ("q4" if bits < 8 else "q8")
    assert found.has_half_scales
    assert has_half_scales(found.packed())
    np.testing.assert_array_equal(assert_reads_alike(found), matrix.values)


def test_zero_points_that_only_some_outputs_have_in_the_middle_are_stored_less(tmp_path: Path) -> None:
    matrix = grouped(16, 64)
    matrix.zeros[:, :8], matrix.zeros[:, 8:] = 9, 4
    tensors = gptq_tensors(matrix)
    np.testing.assert_array_equal(composed(tmp_path, tensors, sym=True).rows(0, 8), matrix.values[:8])
    matrix.zeros[:] = 9
    np.testing.assert_array_equal(composed(tmp_path, gptq_tensors(matrix), sym=False).rows(0, 8), matrix.values[:8])


def test_the_largest_zero_point_is_one_more_than_codes_can_be(tmp_path: Path) -> None:
    matrix = grouped(8, 32)
    matrix.zeros[:] = 16
    np.testing.assert_array_equal(composed(tmp_path, gptq_tensors(matrix)).rows(0, 8), matrix.values)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("group_size", [32, 16, -1])
def test_reordered_inputs_find_their_groups(tmp_path: Path, bits: int, group_size: int) -> None:
    matrix = grouped(32, 96, bits=bits, group_size=group_size, is_symmetric=True, is_shuffled=True)
    settings = {"bits": bits, "group_size": group_size, "desc_act": True, "sym": True}
    found = composed(tmp_path, gptq_tensors(matrix), **settings)
    packed = "q8" if bits == 8 else "q4"
    assert found.format == (packed if group_size == -1 else None)
    np.testing.assert_array_equal(assert_reads_alike(found), matrix.values)


def test_runs_of_inputs_in_another_order_are_packed(tmp_path: Path) -> None:
    matrix = grouped(16, 96)
    groups = np.repeat([2, 0, 1], 32)
    reordered = Grouped(matrix.codes, matrix.zeros, matrix.scales, groups, 4)
    found = composed(tmp_path, gptq_tensors(reordered), desc_act=True)
    assert found.format == "q4"
    np.testing.assert_array_equal(assert_reads_alike(found), reordered.values)


def test_packing_takes_little_memory_beside_the_result(tmp_path: Path) -> None:
    num_inputs, num_outputs = 2048, 8192
    tensors = {
        "qweight": np.full((num_inputs // 8, num_outputs), 0x12345678, np.int32),
        "qzeros": np.full((num_inputs // 128, num_outputs // 8), 0x77777777, np.int32),
        "scales": np.ones((num_inputs // 128, num_outputs), np.float16),
    }
    found = composed(tmp_path, tensors, group_size=128, sym=True)
    tracemalloc.start()
    packed = found.packed()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert packed.num_bytes == num_inputs * num_outputs * 5 // 8
    assert peak_bytes < 2 * packed.num_bytes


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_several_threads_may_read(tmp_path: Path, is_shuffled: bool) -> None:
    matrix = grouped(64, 96, is_symmetric=True, is_shuffled=is_shuffled)
    found = composed(tmp_path, gptq_tensors(matrix), sym=True, desc_act=is_shuffled)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda row: found.rows(row, row + 1), [*range(64)] * 4))
    np.testing.assert_array_equal(np.concatenate(rows), np.tile(matrix.values, (4, 1)))


def test_the_groups_of_inputs_may_be_left_out(tmp_path: Path) -> None:
    matrix = grouped(16, 64)
    tensors = gptq_tensors(matrix)
    del tensors["g_idx"]
    np.testing.assert_array_equal(composed(tmp_path, tensors).rows(0, 16), matrix.values)
    with pytest.raises(CheckpointError, match=r"'x\.qweight' needs tensor 'x\.g_idx', which is missing"):
        composed(tmp_path, tensors, desc_act=True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"checkpoint_format": "marlin"}, "GPTQ in format 'marlin' is not supported; supported: gptq, gptq_v2"),
        ({"checkpoint_format": "BitBLAS"}, "GPTQ in format 'bitblas' is not supported"),
        ({"format": "gptq_p"}, "GPTQ in format 'gptq_p' is not supported"),
        ({"is_marlin_format": True}, "GPTQ in format 'marlin' is not supported"),
        ({"pack_dtype": "int64"}, "pack_dtype 'int64' is not supported; supported: int32"),
        ({"bits": 5}, "GPTQ of 5 bits is not supported; supported: 2, 3, 4, 8"),
    ],
)
def test_other_layouts_are_refused_by_name(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"config.json: {reason}"):
        read_gptq(Fields("config.json", SETTINGS | settings))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"bits": None}, "bits is missing"),
        ({"bits": "4"}, "bits is '4', it must be an integer"),
        ({"group_size": 0}, "group_size is 0, it must be the inputs of a group, or -1 for all"),
        ({"sym": "yes"}, "sym is 'yes', it must be true or false"),
        ({"desc_act": 1}, "desc_act is 1, it must be true or false"),
        ({"checkpoint_format": 2}, "checkpoint_format is 2, it must be a string"),
    ],
)
def test_settings_that_cannot_be_are_named(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"config.json: {reason}"):
        read_gptq(Fields("config.json", SETTINGS | settings))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"scales": None}, "'x.qweight' needs tensor 'x.scales', which is missing"),
        ({"qzeros": None}, "'x.qweight' needs tensor 'x.qzeros', which is missing"),
        ({"qweight": None}, "'x.(qzeros|scales|g_idx)' belongs to tensor 'x.qweight', which is missing"),
        (
            {"qweight": np.zeros((7, 16), np.int32)},
            r"'x.qweight' has shape \[7, 16\], .* needs \[8, 16\]",
        ),
        ({"qweight": np.zeros((8, 16), np.uint8)}, "'x.qweight' has dtype U8; supported: I32"),
        ({"qzeros": np.zeros((3, 2), np.int32)}, r"'x.qzeros' has shape \[3, 2\]"),
        ({"scales": np.zeros((2, 17), np.float16)}, r"'x.qweight' has shape \[8, 16\], .* \[8, 17\]"),
        ({"scales": np.zeros((3, 16), np.float16)}, r"'x.scales' has shape \[3, 16\]"),
        ({"scales": np.zeros((2, 16, 1), np.float16)}, r"'x.scales' has shape \[2, 16, 1\]; it must be a matrix"),
        ({"g_idx": np.zeros(65, np.int32)}, r"'x.qweight' has shape \[8, 16\], .* \[9, 16\]"),
        ({"g_idx": np.zeros((64, 1), np.int32)}, r"'x.g_idx' has shape \[64, 1\], what belongs to it needs \[64\]"),
        ({"g_idx": np.zeros(64, np.float32)}, "'x.g_idx' has dtype F32; supported: I32, I64"),
        ({"weight": np.zeros((16, 64), np.float32)}, "'x.qweight' is there, and so is 'x.weight'"),
    ],
)
def test_damage_is_named(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    tensors = gptq_tensors(grouped(16, 64)) | changed
    present = {name: array for name, array in tensors.items() if array is not None}
    with pytest.raises((CheckpointError, UnsupportedModel), match=rf"m\.safetensors: tensor {reason}"):
        composed(tmp_path, present)


@pytest.mark.parametrize("group", [-1, 2, 1 << 30])
@pytest.mark.parametrize("is_reordered", [False, True])
def test_groups_that_are_not_there_are_named(tmp_path: Path, group: int, is_reordered: bool) -> None:
    tensors = gptq_tensors(grouped(16, 64))
    tensors["g_idx"][7] = group
    found = composed(tmp_path, tensors, desc_act=is_reordered)
    for read in (found.packed, lambda: found.rows(0, 1)):
        with pytest.raises(CheckpointError, match=r"'x.g_idx' names groups outside of the 2 that there are"):
            read()


def test_an_order_that_the_settings_deny_is_named(tmp_path: Path) -> None:
    found = composed(tmp_path, gptq_tensors(grouped(16, 64, is_shuffled=True)))
    with pytest.raises(CheckpointError, match=r"'x\.g_idx' has the inputs in another order .* set desc_act to true"):
        found.packed()


def test_eight_bits_that_are_not_symmetric_after_all_are_named(tmp_path: Path) -> None:
    found = composed(tmp_path, gptq_tensors(grouped(16, 64, bits=8)), bits=8, sym=True)
    with pytest.raises(CheckpointError, match=r"'x\.qweight' has zero points other than 128, though sym is true"):
        found.packed()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scales_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    matrix = grouped(16, 64, is_shuffled=True)
    matrix.scales[1, 5] = value
    found = composed(tmp_path, gptq_tensors(matrix), desc_act=True)
    for read in (found.packed, lambda: found.rows(5, 6)):
        with pytest.raises(CheckpointError, match=r"'x\.scales' holds values that are not finite"):
            read()
