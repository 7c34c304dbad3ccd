"""The blocks that tests write themselves, as the gguf package reads them."""

import numpy as np
import pytest
from gguf.quants import dequantize

from tests.unit.weights.k_blocks import WRITTEN_HERE, blocks_of
from tests.unit.weights.model_files import GgmlType

# Rounding to so many levels in groups of 16 or 32 normal values, relative.
BOUNDS = {"Q2_K": 0.35, "Q3_K": 0.21, "Q4_K": 0.08, "Q5_K": 0.04, "Q6_K": 0.02, "IQ4_NL": 0.1, "IQ4_XS": 0.1}


@pytest.mark.parametrize("kind", WRITTEN_HERE, ids=lambda kind: kind.name)
def test_what_is_written_is_read_back_near(kind: GgmlType) -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 512)).astype(np.float32)
    blocks = blocks_of(kind, values)
    assert blocks.shape[:2] == (2, 3)
    read = dequantize(blocks, kind)
    error = np.linalg.norm(read - values) / np.linalg.norm(values)
    assert 0 < error < BOUNDS[kind.name]


@pytest.mark.parametrize("kind", WRITTEN_HERE, ids=lambda kind: kind.name)
def test_zeros_are_read_back_as_zeros(kind: GgmlType) -> None:
    assert not dequantize(blocks_of(kind, np.zeros((2, 256), np.float32)), kind).any()
