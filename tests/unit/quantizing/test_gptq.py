"""Against the idea written down slowly: round one weight, then solve for all that are left by least squares."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.quantizing.gptq import factor, fed_back
from tailrace.quantizing.grid import INT4, INT4_WITH_ZERO, INT8, Grid, round_rows

RNG = np.random.default_rng(3)
ROWS, OUT, IN = 200, 7, 96
# Inputs that go together, as activations do, some of them large.
INPUTS = (RNG.normal(size=(ROWS, 24)) @ RNG.normal(size=(24, IN)) + RNG.normal(size=(ROWS, IN))).astype(np.float32)
INPUTS[:, ::17] *= 8
VALUES = RNG.normal(size=(OUT, IN)).astype(np.float32)
GRIDS = {"int8": INT8, "int4": INT4, "int4 with zero": INT4_WITH_ZERO}


@pytest.fixture(params=GRIDS)
def grid(request: pytest.FixtureRequest) -> Grid:
    return GRIDS[request.param]


def by_least_squares(values: NDArray[np.float32], inputs: NDArray[np.float32], grid: Grid) -> NDArray[np.float64]:
    """Damping is as if there were, for each input, one more row that holds it alone."""
    damping = 0.01 * np.square(inputs.astype(np.float64)).sum(axis=0).mean()
    x = np.concatenate([inputs.astype(np.float64), np.sqrt(damping) * np.eye(inputs.shape[1])])
    wanted, now, rounded = x @ values.T.astype(np.float64), values.T.astype(np.float64), np.empty(values.T.shape)
    for place in range(inputs.shape[1]):
        if place:
            now[place:] = np.linalg.lstsq(x[:, place:], wanted - x[:, :place] @ rounded[:place], rcond=None)[0]
        if place % 32 == 0:
            levels = grid.levels(now[place : place + 32].T.astype(np.float32))
        codes = levels.codes(now[place].astype(np.float32)[:, None], grid)
        rounded[place] = levels.values(codes)[:, 0]
    return rounded.T


def test_each_weight_makes_up_for_those_before_it_as_least_squares_would(grid: Grid) -> None:
    upper = factor(INPUTS)
    assert upper is not None
    found = fed_back(VALUES, upper, grid, "a matrix").dequantize()

    np.testing.assert_allclose(found, by_least_squares(VALUES, INPUTS, grid), atol=2e-4)


def test_the_output_is_nearer_than_that_of_rounding_to_nearest(grid: Grid) -> None:
    upper = factor(INPUTS)
    assert upper is not None
    nearest = round_rows(lambda begin, end: VALUES[begin:end], VALUES.shape, grid, "a matrix").dequantize()
    found = fed_back(VALUES, upper, grid, "a matrix").dequantize()

    of_found, of_nearest = (np.square(INPUTS @ (VALUES - made).T).sum() for made in (found, nearest))
    assert of_found < 0.6 * of_nearest


def test_inputs_that_do_not_go_together_leave_rounding_to_nearest(grid: Grid) -> None:
    upper = factor(np.eye(IN, dtype=np.float32))
    assert upper is not None

    nearest = round_rows(lambda begin, end: VALUES[begin:end], VALUES.shape, grid, "a matrix").dequantize()
    assert np.array_equal(fed_back(VALUES, upper, grid, "a matrix").dequantize(), nearest)


def test_rows_do_not_depend_on_each_other() -> None:
    upper = factor(INPUTS)
    assert upper is not None
    many = RNG.normal(size=(700, IN)).astype(np.float32)  # several pieces of rows
    whole = fed_back(many, upper, INT4, "a matrix").dequantize()

    few = np.concatenate(
        [fed_back(many[begin : begin + 70], upper, INT4, "").dequantize() for begin in range(0, 700, 70)]
    )
    np.testing.assert_allclose(few, whole, atol=1e-4)


def test_inputs_that_are_never_seen_keep_their_nearest_level() -> None:
    inputs = INPUTS.copy()
    inputs[:, 40] = 0
    upper = factor(inputs)
    assert upper is not None

    assert np.isfinite(fed_back(VALUES, upper, INT4, "a matrix").dequantize()).all()
    assert (upper[40, 41:] == 0).all()
    assert (upper[:40, 40] == 0).all()


@pytest.mark.parametrize("inputs", [INPUTS[:31], np.zeros((200, IN), np.float32)])
def test_a_text_that_hardly_reaches_a_matrix_gives_no_factor(inputs: NDArray[np.float32]) -> None:
    assert factor(inputs) is None


def test_values_that_are_not_finite_are_refused_by_name() -> None:
    upper, values = factor(INPUTS), VALUES.copy()
    assert upper is not None
    values[3, 50] = np.nan

    with pytest.raises(CheckpointError, match="a matrix holds values that are not finite"):
        fed_back(values, upper, INT4, "a matrix")
