"""Scales and zeros a block, read for a range of rows, against the rule spelt out value by value."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.errors import CheckpointError
from tailrace.weights.quantized.scales import Grid, PackedZeros, Scales, Zeros
from tests.unit.weights.quantized.compressed_files import words
from tests.unit.weights.quantized.raw_files import Raw, raw, read_back

RANGES = st.tuples(st.integers(1, 70), st.integers(0, 69), st.integers(1, 70)).filter(lambda all_: all_[1] < all_[0])
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(rows=RANGES, columns=st.integers(1, 40), height=st.integers(1, 80), width=st.integers(1, 50))
@SHARED
def test_a_row_has_the_scales_of_its_block(
    tmp_path: Path, rows: tuple[int, int, int], columns: int, height: int, width: int
) -> None:
    count, begin, length = rows
    end = min(begin + length, count)
    grid = Grid.of((count, columns), height, width)
    numbers = np.arange(grid.rows * grid.columns).reshape(grid.rows, grid.columns)
    stored = read_back(
        tmp_path / "a.safetensors",
        {"scale": raw(numbers.astype(np.float32)), "zero": raw((numbers % 100).astype(np.int8))},
    )
    spelt_out = [[numbers[row // height, block] for block in range(-(-columns // width))] for row in range(begin, end)]
    found = Scales(stored["scale"], grid, 448.0).of_rows(begin, end)
    np.testing.assert_array_equal(found, np.array(spelt_out, np.float32))
    np.testing.assert_array_equal(Zeros(stored["zero"], grid).of_rows(begin, end), np.array(spelt_out) % 100)


@given(rows=RANGES, bits=st.integers(2, 8), columns=st.integers(1, 3))
@SHARED
def test_zeros_are_packed_down_the_rows(tmp_path: Path, rows: tuple[int, int, int], bits: int, columns: int) -> None:
    count, begin, length = rows
    end, half = min(begin + length, count), 1 << (bits - 1)
    zeros = np.random.default_rng(count).integers(-half, half, (count, columns))
    packed = read_back(tmp_path / "a.safetensors", {"zero": raw(words(zeros.T + half, bits).T.copy())})["zero"]
    np.testing.assert_array_equal(PackedZeros(packed, bits).of_rows(begin, end), zeros[begin:end])


@pytest.mark.parametrize(
    ("scale", "is_held"),
    [
        (raw(np.full((1, 1), 511, np.float16)), True),
        (raw(np.full((1, 1), 512, np.float16)), False),
        (raw(np.full((1, 1), 2.6e36, np.float32)), True),
        (raw(np.full((1, 1), 2.7e36, np.float32)), False),
        (Raw("F8_E8M0", np.full((1, 1), 127 + 120, np.uint8)), True),
        (Raw("F8_E8M0", np.full((1, 1), 127 + 121, np.uint8)), False),
        (Raw("F8_E8M0", np.full((1, 1), 255, np.uint8)), False),
    ],
)
def test_products_stay_within_what_holds_them(tmp_path: Path, scale: Raw, is_held: bool) -> None:
    """Times 128; of half floats in half floats."""
    scales = Scales(read_back(tmp_path / "a.safetensors", {"scale": scale})["scale"], Grid(1, 1, 1, 1), 128.0)
    if is_held:
        assert np.isfinite(scales.of_rows(0, 1) * np.float32(128)).all()
        return
    with pytest.raises(CheckpointError, match=r"tensor 'scale' holds scales that are not finite, or too large"):
        scales.of_rows(0, 1)
