"""The layout of a block in Redis: what was packed comes back, and nothing else is taken for a block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.levels.redis_value import HEADER_BYTES, head_of, pack, unpack_into
from tests.support.blocks import BLOCK_BYTES, block, contents, word

BLOCK = block(word("a block"))
VALUE = pack(BLOCK, 7)


def unpacked(value: bytes, block_name: bytes = BLOCK.head.name, num_bytes: int = BLOCK_BYTES) -> bytes | None:
    buffer = bytearray(num_bytes)
    return bytes(buffer) if unpack_into(value, block_name, memoryview(buffer)) else None


def test_a_block_comes_back_as_it_was() -> None:
    assert unpacked(VALUE) == contents(BLOCK.head.name)
    assert head_of(VALUE) == head_of(VALUE[:HEADER_BYTES]) == BLOCK.head
    assert len(VALUE) == HEADER_BYTES + BLOCK_BYTES


@given(st.integers(0, len(VALUE) - 1), st.integers(1, 255))
def test_no_altered_byte_goes_unseen(where: int, mask: int) -> None:
    altered = bytearray(VALUE)
    altered[where] ^= mask
    assert unpacked(bytes(altered)) is None


@given(st.integers(0, len(VALUE) - 1))
def test_a_value_that_breaks_off_is_no_block(length: int) -> None:
    assert unpacked(VALUE[:length]) is None
    assert unpacked(VALUE[:length], num_bytes=max(0, length - HEADER_BYTES)) is None


@pytest.mark.parametrize("value", [b"", b"x", b"\0" * 2000, VALUE + b"x", b"x" + VALUE])
def test_other_values_are_no_blocks(value: bytes) -> None:
    assert unpacked(value) is None


def test_a_block_of_another_name_or_size_is_refused_and_touches_nothing() -> None:
    assert unpacked(VALUE, word("another")) is None
    buffer = bytearray(b"x" * (BLOCK_BYTES + 1))
    assert not unpack_into(VALUE, BLOCK.head.name, memoryview(buffer))
    assert buffer == b"x" * (BLOCK_BYTES + 1)
    assert head_of(b"TRKV" + bytes(HEADER_BYTES - 4)) is None
