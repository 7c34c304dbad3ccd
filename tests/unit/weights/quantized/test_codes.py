"""Codes of every kind, against the formats spelt out."""

from pathlib import Path

import numpy as np
import pytest

from tailrace.weights.quantized.codes import Bytes, Float4s, PackedIntegers
from tests.unit.weights.quantized.compressed_files import words
from tests.unit.weights.quantized.raw_files import raw, read_back

# 1 sign, 2 of exponent, 1 of mantissa; beneath the smallest exponent the mantissa counts alone.
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 45])
def test_packed_integers_are_shifted(tmp_path: Path, bits: int, columns: int) -> None:
    half = 1 << (bits - 1)
    numbers = np.random.default_rng(bits).integers(-half, half, (5, columns))
    numbers[0, 0], numbers[4, -1] = -half, half - 1
    stored = read_back(tmp_path / "a.safetensors", {"a": raw(words(numbers + half, bits))})["a"]
    codes = PackedIntegers(stored, bits, columns)
    np.testing.assert_array_equal(codes.of_rows(0, 5), numbers)
    np.testing.assert_array_equal(codes.of_rows(3, 5), numbers[3:])
    assert (codes.word, codes.span, codes.largest) == (f"INT{bits}", (-half, half - 1), half)


def test_bytes_are_what_they_are(tmp_path: Path) -> None:
    numbers = np.arange(-128, 128).astype(np.int8).reshape(4, 64)
    codes = Bytes(read_back(tmp_path / "a.safetensors", {"a": raw(numbers)})["a"])
    np.testing.assert_array_equal(codes.of_rows(1, 3), numbers[1:3])
    assert codes.span == (numbers.min(), numbers.max())


def test_the_low_half_of_a_byte_is_the_first_of_two_floats(tmp_path: Path) -> None:
    pairs = np.arange(256, dtype=np.uint8).reshape(4, 64)
    values = [
        [E2M1[half & 7] * (-1 if half & 8 else 1) for byte in row for half in (byte & 15, byte >> 4)] for row in pairs
    ]
    codes = Float4s(read_back(tmp_path / "a.safetensors", {"a": raw(pairs)})["a"], "MXFP4")
    np.testing.assert_array_equal(codes.of_rows(0, 4) * 0.5, values)
    np.testing.assert_array_equal(codes.of_rows(2, 3) * 0.5, values[2:3])
    assert codes.span == (-2 * max(E2M1), 2 * max(E2M1))
