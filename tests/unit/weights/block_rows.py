"""Rows of blocks with the values that the gguf package reads out of them."""

from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as GgmlType
from gguf.quants import dequantize
from numpy.typing import NDArray

from tailrace.ops.packed import PackedTensor
from tailrace.weights.block_codes import Codes
from tests.unit.weights.model_files import random_blocks

__all__ = ["as_blocks", "random_rows", "true_values", "values_of"]


def as_blocks(kind: GgmlType, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[rows, blocks of a row, bytes of a block]"""
    return rows.reshape(len(rows), -1, gguf.GGML_QUANT_SIZES[kind][1])


def true_values(kind: GgmlType, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return np.asarray(dequantize(rows.reshape(len(rows), -1), kind), np.float32)


def random_rows(
    kind: GgmlType, num_rows: int, num_blocks: int, seed: int = 0
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Blocks [rows, blocks of a row, bytes of a block] and their values [rows, columns]."""
    rows = random_blocks(kind, num_rows, num_blocks * gguf.GGML_QUANT_SIZES[kind][0], seed)
    return as_blocks(kind, rows), true_values(kind, rows)


def values_of(codes: Codes) -> NDArray[np.float32]:
    """What codes stand for, [rows, columns]."""
    size = {"q8": 32, "q4": 16}[codes.format]
    values = codes.values.reshape(len(codes.values), -1, size)
    of_groups: tuple[int, ...] = values.shape[:2]
    parts: list[NDArray[Any] | None] = [
        None if part is None else part.reshape(of_groups) for part in (codes.scales, codes.offsets)
    ]
    with np.errstate(all="ignore"):
        return PackedTensor((of_groups[0], of_groups[1] * 32), codes.format, values, *parts).dequantize()
