"""Matrices quantised on their way in: the same whether native code reads them where they lie or numpy as float32."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.ops.packed import PackedTensor, quantize_int4, quantize_int8
from tailrace.ops.raw import RawMatrix
from tailrace.weights.quantize import Mode, quantize_rows

MODES: Sequence[Mode] = ("int8", "int4")
Convert = Callable[[NDArray[np.float32], Mode], tuple[PackedTensor, float]]
WHERE = "file.gguf: tensor 'q'"

modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(params=["where it lies", "as float32", "without native code"])
def convert(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Convert:
    if request.param == "without native code":
        monkeypatch.setattr("tailrace.ops.narrow._conversion", lambda: None)

    def read(values: NDArray[np.float32], mode: Mode) -> tuple[PackedTensor, float]:
        parts = [RawMatrix.of_floats("f32", part) for part in np.array_split(values, 3)]
        return quantize_rows(
            lambda begin, end: values[begin:end],
            values.shape,
            mode,
            WHERE,
            None if request.param == "as float32" else parts,
        )

    return read


def matrix(num_rows: int, num_cols: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(num_rows, num_cols)).astype(np.float32)


@modes
@pytest.mark.parametrize("num_rows", [1, 2, 7, 50])
@pytest.mark.parametrize("chunk_rows", [1, 4, 1000])
def test_the_codes_are_those_of_the_whole_and_the_loss_that_of_all_rows(
    convert: Convert,
    monkeypatch: pytest.MonkeyPatch,
    mode: Mode,
    num_rows: int,
    chunk_rows: int,
) -> None:
    values = matrix(num_rows, 96)
    for name in ("_CHUNK_VALUES", "_RAW_CHUNK_VALUES"):
        monkeypatch.setattr(f"tailrace.weights.quantize.{name}", chunk_rows * values.shape[1])
    expected = (quantize_int8 if mode == "int8" else quantize_int4)(values)
    packed, error = convert(values, mode)
    assert packed.shape == values.shape
    assert packed.scales is not None
    assert packed.scales.dtype == np.float16
    np.testing.assert_array_equal(packed.values, expected.values)
    np.testing.assert_array_equal(packed.dequantize(), expected.dequantize())
    loss = np.linalg.norm(expected.dequantize() - values) / np.linalg.norm(values)
    assert error == pytest.approx(loss, rel=1e-4)


@modes
def test_a_matrix_of_zeros_loses_nothing(convert: Convert, mode: Mode) -> None:
    packed, error = convert(np.zeros((5, 32), np.float32), mode)
    assert error == 0.0
    np.testing.assert_array_equal(packed.dequantize(), 0.0)


@modes
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (np.nan, "that are not finite: the file is damaged; fetch it again"),
        (-np.inf, "that are not finite: the file is damaged; fetch it again"),
        (1e9, "too large for {mode}"),
    ],
)
def test_what_cannot_be_quantised_is_refused_by_name_and_reason(
    convert: Convert, mode: Mode, wrong: float, reason: str
) -> None:
    values = matrix(9, 64)
    values[7, 40] = wrong
    with pytest.raises(CheckpointError, match=re.escape(f"{WHERE} holds values {reason.format(mode=mode)}")):
        convert(values, mode)


def test_rows_that_come_turned_are_taken() -> None:
    values = matrix(64, 32)
    packed, _ = quantize_rows(lambda begin, end: values[:, begin:end].T, (32, 64), "int8", WHERE)
    np.testing.assert_array_equal(packed.values, quantize_int8(np.ascontiguousarray(values.T)).values)
