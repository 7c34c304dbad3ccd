"""Blocks that choose rows of a grid against the gguf package, bit for bit."""

import subprocess
import sys

import numpy as np
import pytest

from tailrace.weights import grid_blocks
from tests.unit.weights.block_rows import random_rows, values_of
from tests.unit.weights.model_files import GgmlType

KINDS = ["IQ1_S", "IQ2_XXS", "IQ3_XXS", "IQ3_S"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("num_rows", "num_blocks"), [(1, 1), (7, 1), (1, 3), (5, 4)])
def test_random_blocks_are_read_bit_for_bit(kind: str, num_rows: int, num_blocks: int) -> None:
    blocks, values = random_rows(GgmlType[kind], num_rows, num_blocks)
    codes = getattr(grid_blocks, kind.lower())(blocks)
    np.testing.assert_array_equal(values_of(codes), values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scale_of_nothing_gives_zeros(kind: str) -> None:
    blocks, _ = random_rows(GgmlType[kind], 3, 2)
    blocks[1, :, :2] = 0
    values = values_of(getattr(grid_blocks, kind.lower())(blocks))
    assert not values[1].any()
    assert values[0].any()


@pytest.mark.parametrize("kind", ["Q2_K", "Q5_K", "Q6_K", "IQ2_XS"])
def test_blocks_of_any_type_are_expanded_a_few_rows_at_a_time(kind: str) -> None:
    blocks, values = random_rows(GgmlType[kind], 9, 2)
    np.testing.assert_array_equal(grid_blocks.expanded(blocks[3:5], kind), values[3:5])


def test_the_package_with_the_grids_is_imported_when_a_block_is_read() -> None:
    code = "import sys, tailrace.weights.gguf_checkpoint; print('gguf' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "False\n"
