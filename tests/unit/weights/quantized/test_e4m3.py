"""Floats of 8 bits, against their definition."""

import numpy as np
import pytest

from tailrace.weights.quantized.e4m3 import E4M3_LARGEST, decode_e4m3, decode_e8m0, has_nan
from tests.support.e4m3 import LARGEST, NOT_NUMBERS, decode
from tests.unit.weights.quantized.golden import expected

CODES = np.arange(256, dtype=np.uint8)
NUMBERS = np.delete(CODES, NOT_NUMBERS)


def test_every_code_is_the_number_that_the_format_defines() -> None:
    values = decode_e4m3(CODES)
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values[NUMBERS], decode(NUMBERS))
    np.testing.assert_array_equal(np.signbit(values[NUMBERS]), NUMBERS >= 0x80)
    assert np.isnan(values[list(NOT_NUMBERS)]).all()
    assert E4M3_LARGEST == LARGEST == np.nanmax(values)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 5), (2, 3, 4), (7, 8)])
def test_shapes_stay_what_they_are_whatever_their_parity(shape: tuple[int, ...]) -> None:
    codes = np.random.default_rng(0).choice(NUMBERS, shape)
    np.testing.assert_array_equal(decode_e4m3(codes), decode(codes))
    turned = codes.T
    np.testing.assert_array_equal(decode_e4m3(turned), decode(turned))


@pytest.mark.parametrize("code", NOT_NUMBERS)
def test_what_is_no_number_is_found(code: int) -> None:
    assert not has_nan(NUMBERS)
    assert has_nan(np.append(NUMBERS, np.uint8(code)))


def test_exponents_alone_are_powers_of_two() -> None:
    values = decode_e8m0(CODES)
    assert values.dtype == np.float32
    assert values[:255].tolist() == [2.0 ** (code - 127) for code in range(255)]
    assert np.isnan(values[255])


def test_torch_reads_the_same() -> None:
    for name, decoded in (("e4m3", decode_e4m3(CODES)), ("e8m0", decode_e8m0(CODES))):
        np.testing.assert_array_equal(decoded, expected(name)[1])
        np.testing.assert_array_equal(np.signbit(decoded), np.signbit(expected(name)[1]))
