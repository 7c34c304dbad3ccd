"""Native decoding gives, on every instruction set, the float32 that each format's definition says, to the bit."""

from math import ceil

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tailrace.ops.cpu.backend import supported_isas
from tailrace.ops.cpu.conversion import narrow, widen
from tailrace.ops.packed import GROUP
from tailrace.ops.raw import BLOCK_FORMS, RawMatrix, ScaleGrid
from tests.support import e4m3
from tests.unit.ops.test_narrow import QUANTIZE, SEEDS, room
from tests.unit.weights.block_rows import true_values
from tests.unit.weights.model_files import random_blocks

isas = pytest.mark.parametrize("isa", supported_isas())
NUMBERS = np.array([code for code in range(256) if code not in e4m3.NOT_NUMBERS], np.uint8)


def blocks(form: str, num_rows: int, num_blocks: int, seed: int) -> tuple[RawMatrix, NDArray[np.float32]]:
    kind = GgmlType[form]
    num_cols = num_blocks * gguf.GGML_QUANT_SIZES[kind][0]
    data = random_blocks(kind, num_rows, num_cols, seed).reshape(num_rows, -1)
    return RawMatrix(BLOCK_FORMS[form], num_cols, data), true_values(kind, data)


@isas
@pytest.mark.parametrize("form", BLOCK_FORMS)
@given(st.integers(1, 4), st.integers(1, 5), SEEDS)
@settings(max_examples=25, deadline=None)
def test_blocks_are_read_as_the_gguf_package_reads_them(
    isa: str, form: str, num_rows: int, num_blocks: int, seed: int
) -> None:
    raw, expected = blocks(form, num_rows, num_blocks, seed)
    np.testing.assert_array_equal(widen(raw, isa).view(np.uint32), expected.view(np.uint32))


@isas
@pytest.mark.parametrize("form", BLOCK_FORMS)
@pytest.mark.parametrize("mode", QUANTIZE)
def test_blocks_are_narrowed_like_their_values(isa: str, form: str, mode: str) -> None:
    whole, values = blocks(form, 60, 1, seed=3)
    has_scales = np.abs(values).max(axis=1) < 6e4
    assert has_scales.sum() > 5
    raw = RawMatrix(whole.form, whole.num_cols, whole.data[has_scales])
    expected = QUANTIZE[mode](values[has_scales])
    packed = room(raw.num_rows, raw.num_cols, mode)
    assert np.isfinite(narrow(raw, packed, isa)).all()
    np.testing.assert_array_equal(packed.values, expected.values)
    np.testing.assert_array_equal(packed.dequantize(), expected.dequantize())


@isas
@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_rows_may_lie_apart_and_anywhere(isa: str, form: str) -> None:
    raw, expected = blocks(form, 6, 2, seed=5)
    apart = np.zeros((6, raw.data.shape[1] + 3), np.uint8)
    apart[:, 1:-2] = raw.data
    every_other = RawMatrix(raw.form, raw.num_cols, apart[::2, 1:-2])
    np.testing.assert_array_equal(widen(every_other, isa), expected[::2])
    np.testing.assert_array_equal(widen(every_other.rows(1, 3), isa), expected[2::2])


def scaled(codes: NDArray[np.uint8], grid: ScaleGrid) -> NDArray[np.float32]:
    """Value by value: the product of two float32."""
    values = np.empty(codes.shape, np.float32)
    for row in range(codes.shape[0]):
        for col in range(codes.shape[1]):
            scale = grid.scales[(grid.first_row + row) // grid.block_rows, col // grid.block_cols]
            values[row, col] = np.float32(e4m3.decode(codes[row, col])) * scale
    return values


@isas
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 5)), st.integers(1, 5), st.sampled_from([32, 64, 96, 1 << 20]), SEEDS
)
@settings(max_examples=40, deadline=None)
def test_floats_of_8_bits_with_a_scale_for_each_ragged_block(
    isa: str, sizes: tuple[int, int], block_rows: int, block_cols: int, seed: int
) -> None:
    num_rows, num_groups = sizes
    rng = np.random.default_rng(seed)
    num_cols = num_groups * GROUP
    blocks_of_grid = ceil(num_rows / block_rows), ceil(num_cols / block_cols)
    scales = (rng.normal(size=blocks_of_grid) * np.exp2(rng.integers(-140, 110, blocks_of_grid))).astype(np.float32)
    codes = rng.choice(NUMBERS, (num_rows, num_cols))
    raw = RawMatrix("e4m3", num_cols, codes, ScaleGrid(scales, block_rows, block_cols))
    assert raw.grid is not None
    with np.errstate(all="ignore"):
        expected = scaled(codes, raw.grid)
    np.testing.assert_array_equal(widen(raw, isa).view(np.uint32), expected.view(np.uint32))
    begin = seed % num_rows
    np.testing.assert_array_equal(widen(raw.rows(begin, num_rows), isa), expected[begin:])


@isas
def test_every_float_of_8_bits(isa: str) -> None:
    codes = np.resize(NUMBERS, (1, 256))
    raw = RawMatrix("e4m3", 256, codes, ScaleGrid(np.ones((1, 1), np.float32), 1, 256))
    np.testing.assert_array_equal(widen(raw, isa), e4m3.decode(codes))
    np.testing.assert_array_equal(np.signbit(widen(raw, isa)), codes >= 0x80)


@isas
@pytest.mark.parametrize("mode", QUANTIZE)
@pytest.mark.parametrize("wrong", e4m3.NOT_NUMBERS)
def test_what_is_no_number_in_8_bits_is_none_in_32(isa: str, mode: str, wrong: int) -> None:
    codes = np.full((2, GROUP), 0x38, np.uint8)
    codes[1, 5] = wrong
    raw = RawMatrix("e4m3", GROUP, codes, ScaleGrid(np.ones((1, 1), np.float32), 2, GROUP))
    np.testing.assert_array_equal(np.isnan(widen(raw, isa)), codes == wrong)
    assert not np.isfinite(narrow(raw, room(2, GROUP, mode), isa)).all()


@pytest.mark.parametrize(
    ("shape", "block", "first_row", "reason"),
    [
        ((1, 2), (2, 32), 0, "rows have no scale"),
        ((2, 2), (2, 32), 2, "rows have no scale"),
        ((2, 1), (2, 32), 0, "columns have no scale"),
        ((4, 4), (1, 16), 0, "a scale ends inside a group"),
        ((4, 4), (0, 32), 0, "empty"),
        ((4, 4), (1, 0), 0, "empty"),
        ((4, 4), (1, 32), -1, "empty"),
    ],
)
def test_scales_that_do_not_reach_are_refused(
    shape: tuple[int, int], block: tuple[int, int], first_row: int, reason: str
) -> None:
    grid = ScaleGrid(np.ones(shape, np.float32), *block, first_row)
    with pytest.raises(ValueError, match=reason):
        widen(RawMatrix("e4m3", 64, np.zeros((4, 64), np.uint8), grid))


def test_rows_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="ends inside a block"):
        widen(RawMatrix("Q6_K", 256, np.zeros((1, 209), np.uint8)))
    with pytest.raises(ValueError, match="scales go with e4m3"):
        widen(RawMatrix("e4m3", 64, np.zeros((1, 64), np.uint8)))
    with pytest.raises(ValueError, match="scales go with e4m3"):
        widen(RawMatrix("Q8_0", 32, np.zeros((1, 34), np.uint8), ScaleGrid(np.ones((1, 1), np.float32), 1, 32)))
    with pytest.raises(ValueError, match="no stored form"):
        widen(RawMatrix("Q9_9", 32, np.zeros((1, 32), np.uint8)))  # type: ignore[arg-type]  # what if there were
    with pytest.raises(ValueError, match="another shape"):
        widen(RawMatrix("Q8_0", 64, np.zeros((1, 34), np.uint8)))


def test_instruction_sets_that_are_not_there_are_refused() -> None:
    raw = RawMatrix.of_floats("f32", np.zeros((1, GROUP), np.float32))
    with pytest.raises(ValueError, match="no instruction set"):
        widen(raw, "sse9")
