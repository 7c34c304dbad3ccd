"""Numbers packed without gaps, against the stream spelt out bit by bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.weights.quantized.bit_stream import pack, stream_bytes, unpack


def spelt_out(numbers: list[int], bits: int) -> bytes:
    """One large number in which number i stands at bit i * bits."""
    whole = sum(number << (place * bits) for place, number in enumerate(numbers))
    return whole.to_bytes(-(-len(numbers) * bits // 8), "little")


@given(data=st.data(), bits=st.integers(1, 8), count=st.integers(1, 70), rows=st.integers(1, 3))
def test_each_number_is_found_where_it_was_put(data: st.DataObject, bits: int, count: int, rows: int) -> None:
    row = st.lists(st.integers(0, (1 << bits) - 1), min_size=count, max_size=count)
    numbers = np.array(data.draw(st.lists(row, min_size=rows, max_size=rows)), np.uint8)
    stream = pack(numbers, bits)
    assert [bytes(line) for line in stream] == [spelt_out(line, bits) for line in numbers.tolist()]
    for padding in (0, 3):
        padded = np.pad(stream, ((0, 0), (0, padding)), constant_values=255)
        np.testing.assert_array_equal(unpack(padded, bits, count), numbers)


@pytest.mark.parametrize(("bits", "words"), [(4, [0x76543210]), (2, [0xFFFFE4E4]), (3, [0xFAC688, 0])])
def test_known_words_hold_the_numbers_from_zero_on(bits: int, words: list[int]) -> None:
    stream = np.array([words], "<u4").view(np.uint8)
    count = min(8, 1 << bits)
    np.testing.assert_array_equal(unpack(stream, bits, count), [range(count)])


def test_no_rows_and_strided_streams_are_read_too() -> None:
    assert all(unpack(np.zeros((0, 16), np.uint8), bits, 16).shape == (0, 16) for bits in range(1, 9))
    stream = np.arange(48, dtype=np.uint8).reshape(12, 4).T
    np.testing.assert_array_equal(unpack(stream, 5, 19), unpack(stream.copy(), 5, 19))


@pytest.mark.parametrize(
    ("count", "bits", "unit_bytes", "expected"),
    [(8, 4, 4, 4), (9, 4, 4, 8), (32, 3, 4, 12), (33, 3, 4, 16), (3, 3, 1, 2)],
)
def test_a_stream_ends_with_a_whole_unit(count: int, bits: int, unit_bytes: int, expected: int) -> None:
    assert stream_bytes(count, bits, unit_bytes) == expected
