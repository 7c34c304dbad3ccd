"""Blocks of 256 values against the gguf package, bit for bit."""

import numpy as np
import pytest

from tailrace.weights import super_blocks
from tests.unit.weights.block_rows import as_blocks, random_rows, true_values, values_of
from tests.unit.weights.model_files import GgmlType

KINDS = ["Q3_K", "Q4_K", "IQ4_XS", "TQ1_0", "TQ2_0"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("num_rows", "num_blocks"), [(1, 1), (7, 1), (1, 3), (5, 4)])
def test_random_blocks_are_read_bit_for_bit(kind: str, num_rows: int, num_blocks: int) -> None:
    blocks, values = random_rows(GgmlType[kind], num_rows, num_blocks)
    codes = getattr(super_blocks, kind.lower())(blocks)
    np.testing.assert_array_equal(values_of(codes), values)


def test_the_largest_product_of_q3_k_fits_a_byte() -> None:
    """All scales -32 and all codes -4, which is 128 times d."""
    block = np.zeros((1, 110), np.uint8)
    block[0, 108:] = np.array([0.25], np.float16).view(np.uint8)
    codes = super_blocks.q3_k(as_blocks(GgmlType.Q3_K, block))
    assert set(values_of(codes).ravel().tolist()) == {32.0}
    np.testing.assert_array_equal(values_of(codes), true_values(GgmlType.Q3_K, block))


@pytest.mark.parametrize("kind", ["TQ1_0", "TQ2_0"])
def test_ternary_blocks_take_four_bits(kind: str) -> None:
    blocks, _ = random_rows(GgmlType[kind], 3, 2)
    assert getattr(super_blocks, kind.lower())(blocks).format == "q4"
