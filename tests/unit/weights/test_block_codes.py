"""The words that block types share, on bytes written by hand."""

import numpy as np

from tailrace.weights.block_codes import halves_at, nibbles, paired


def test_nibbles_are_the_low_halves_and_then_the_high_ones() -> None:
    assert nibbles(np.array([0x21, 0x43, 0xFE], np.uint8)).tolist() == [1, 3, 14, 2, 4, 15]


def test_pairs_and_nibbles_undo_each_other() -> None:
    codes = np.random.default_rng(0).integers(0, 16, (3, 5, 32), np.uint8)
    np.testing.assert_array_equal(nibbles(paired(codes)), codes)


def test_halves_are_views_of_the_blocks() -> None:
    blocks = np.zeros((2, 3, 7), np.uint8)
    blocks[:, :, 1:5] = np.array([1.5, -2.0], np.float16).view(np.uint8)
    halves = halves_at(blocks, 1, 2)
    assert halves.tolist() == [[1.5, -2.0] * 3] * 2
    assert halves_at(blocks, 3).tolist() == [[-2.0] * 3] * 2
    assert np.shares_memory(halves_at(blocks, 3), blocks)
