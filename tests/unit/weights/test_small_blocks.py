"""Blocks of 32 values against the gguf package, bit for bit."""

import numpy as np
import pytest

from tailrace.weights import small_blocks
from tests.unit.weights.block_rows import as_blocks, random_rows, true_values, values_of
from tests.unit.weights.model_files import GgmlType

KINDS = ["Q4_0", "Q4_1", "Q5_0", "Q8_0", "IQ4_NL", "MXFP4"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("num_rows", "num_blocks"), [(1, 1), (7, 1), (1, 9), (13, 5)])
def test_random_blocks_are_read_bit_for_bit(kind: str, num_rows: int, num_blocks: int) -> None:
    blocks, values = random_rows(GgmlType[kind], num_rows, num_blocks)
    codes = getattr(small_blocks, kind.lower())(blocks)
    np.testing.assert_array_equal(values_of(codes), values)


def test_every_power_of_two_of_mxfp4_is_that_of_the_package() -> None:
    """Down to those that float32 has no normal numbers for, and up to those that it cannot hold six times."""
    rows = np.tile(np.arange(16, dtype=np.uint8) * 0x11, (256, 1))
    rows = np.concatenate([np.arange(256, dtype=np.uint8)[:, None], rows], axis=1)
    values = true_values(GgmlType.MXFP4, rows)
    np.testing.assert_array_equal(values_of(small_blocks.mxfp4(as_blocks(GgmlType.MXFP4, rows))), values)
    assert values[127].tolist()[:8] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


@pytest.mark.parametrize("kind", ["Q5_0", "IQ4_NL"])
def test_every_code_is_that_of_the_package(kind: str) -> None:
    """A scale of one, and all sixteen codes in both halves of the bytes, below fifth bits of both kinds."""
    pairs = np.arange(256, dtype=np.uint8).reshape(16, 16)
    head = np.array([0, 0x3C], np.uint8)
    fifth = [np.full((16, 4), bits, np.uint8) for bits in (0x00, 0xFF, 0xA5)] if kind == "Q5_0" else [pairs[:, :0]]
    rows = np.concatenate([np.concatenate([np.tile(head, (16, 1)), bits, pairs], axis=1) for bits in fifth])
    codes = getattr(small_blocks, kind.lower())(as_blocks(GgmlType[kind], rows))
    np.testing.assert_array_equal(values_of(codes), true_values(GgmlType[kind], rows))
