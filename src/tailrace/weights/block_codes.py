"""Blocks of small integers as the codes, scales and offsets of our packed tensors: the words that block types share."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Blocks", "Codes", "halves_at", "nibbles", "paired"]

Blocks = NDArray[np.uint8]  # [rows, blocks of a row, bytes of a block]


@dataclass(frozen=True, slots=True)
class Codes:
    """Rows of a matrix in groups of 32, as `PackedTensor` has them, with any axes between rows and codes."""

    format: Literal["q4", "q8"]
    values: NDArray[Any]
    scales: NDArray[np.floating[Any]]
    offsets: NDArray[np.floating[Any]] | None = None


def halves_at(blocks: Blocks, begin: int, count: int = 1) -> NDArray[Any]:
    """`count` float16 from byte `begin` of each block on, a view [rows, blocks * count]."""
    halves = blocks[..., begin : begin + 2 * count].view("<f2")
    return halves.reshape(len(blocks), -1)


def nibbles(pairs: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The low halves of the bytes along the last axis, then the high ones."""
    return np.concatenate([pairs & np.uint8(15), pairs >> np.uint8(4)], axis=-1)


def paired(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """4-bit codes [..., 32] as q4 has them: code j beside code 16 + j."""
    return codes[..., :16] | (codes[..., 16:] << np.uint8(4))
