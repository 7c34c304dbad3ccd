import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import PackedTensor
from tailrace.quantizing.grid import INT4, INT4_WITH_ZERO, INT8, Grid, below_each_other, round_rows
from tailrace.weights.quantize import quantize_rows

VALUES = np.random.default_rng(0).normal(size=(1100, 96)).astype(np.float32)  # more rows than one piece has


def rounded(values: NDArray[np.float32], grid: Grid) -> PackedTensor:
    return round_rows(lambda begin, end: values[begin:end], values.shape, grid, "a matrix")


@pytest.mark.parametrize(("grid", "mode"), [(INT8, "int8"), (INT4, "int4")])
def test_it_is_what_the_loader_makes_bit_for_bit(grid: Grid, mode: str) -> None:
    assert mode in ("int8", "int4")
    expected, _ = quantize_rows(lambda begin, end: VALUES[begin:end], VALUES.shape, mode, "a matrix")  # type: ignore[arg-type]  # a parameter is a str
    found = rounded(VALUES, grid)

    assert found.format == expected.format
    for name in ("values", "scales", "offsets"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or (ours.dtype == theirs.dtype and np.array_equal(ours, theirs))


@pytest.mark.parametrize("shift", [0.0, 0.7, 4.0, -4.0])  # zero lies inside, near the edge, or outside of groups
def test_with_an_integer_zero_levels_are_as_fine_as_half_a_step_of_error_allows(shift: float) -> None:
    values = VALUES[:5] + np.float32(shift)
    found = rounded(values, INT4_WITH_ZERO)
    assert found.scales is not None
    assert found.offsets is not None

    for row, group in np.ndindex(5, 3):
        before = values.reshape(5, 3, 32)[row, group].astype(np.float64)
        after = found.dequantize().reshape(5, 3, 32)[row, group]
        scale, zero = float(found.scales[row, group]), -found.offsets[row, group] / float(found.scales[row, group])
        assert zero == pytest.approx(np.rint(zero))
        assert np.abs(before - after).max() <= 0.51 * scale  # scales are rounded to float16
        np.testing.assert_allclose(
            np.abs(before[:, None] - (np.arange(16) - zero) * scale).min(axis=1), np.abs(before - after), atol=1e-6
        )
        for finer in np.linspace(0.5, 0.998, 200) * scale:  # any finer levels are too far from some value
            of_zeros = np.abs(before[:, None, None] - (np.arange(16) - np.arange(16)[:, None]) * finer).min(axis=2)
            assert (of_zeros.max(axis=0) > 0.5 * finer).all()


def test_with_an_integer_zero_what_is_zero_stays_zero() -> None:
    values = VALUES[:4].copy()
    values[:, ::5] = 0

    assert (rounded(values, INT4_WITH_ZERO).dequantize()[:, ::5] == 0).all()


@pytest.mark.parametrize("grid", [INT8, INT4, INT4_WITH_ZERO])
def test_a_group_of_nothing_but_zeros_stays_so(grid: Grid) -> None:
    assert (rounded(np.zeros((2, 32), np.float32), grid).dequantize() == 0).all()


@pytest.mark.parametrize("grid", [INT8, INT4, INT4_WITH_ZERO])
@pytest.mark.parametrize(("value", "reason"), [(np.inf, "not finite"), (np.nan, "not finite"), (3e7, "too large")])
def test_values_that_no_level_stands_for_are_refused_by_name(grid: Grid, value: float, reason: str) -> None:
    values = VALUES.copy()
    values[700, 40] = value

    with pytest.raises(CheckpointError, match=f"a matrix holds values .*{reason}"):
        rounded(values, grid)


@pytest.mark.parametrize("grid", [INT8, INT4, INT4_WITH_ZERO])
def test_matrices_below_each_other_are_those_of_all_rows(grid: Grid) -> None:
    joined = below_each_other([rounded(VALUES[:3], grid), rounded(VALUES[3:7], grid)])

    assert joined.shape == (7, 96)
    assert np.array_equal(joined.dequantize(), rounded(VALUES[:7], grid).dequantize())
