"""Block types that choose rows of a grid, with a scale for 32 values: IQ1_S, IQ2_XXS, IQ3_XXS, IQ3_S.

The `gguf` package has the grids, and expands blocks to float32; with the scale known, the integers are found again.
"""

import numpy as np
from numpy.typing import NDArray

from tailrace.weights.block_codes import Blocks, Codes, halves_at, paired

__all__ = ["expanded", "iq1_s", "iq2_xxs", "iq3_s", "iq3_xxs"]


def expanded(blocks: Blocks, name: str) -> NDArray[np.float32]:
    """The float32 values [rows, columns] of blocks of any type."""
    # Imported here: it takes a sixth of a second, and the default model does without.
    from gguf import GGMLQuantizationType  # noqa: PLC0415
    from gguf.quants import dequantize  # noqa: PLC0415

    values = dequantize(blocks.reshape(len(blocks), -1), GGMLQuantizationType[name])
    return np.asarray(values, np.float32)


def iq1_s(blocks: Blocks) -> Codes:
    """Grid of -1, 0, 1, and an eighth more or less: odd eighths. bytes 0..1 d, 34..49 scales above bits of indices."""
    scale_codes = 2 * (blocks[..., 34:50].view("<u2") >> 12 & 7) + 1
    return _signed(blocks, "IQ1_S", scale_codes, 0.125)


def iq2_xxs(blocks: Blocks) -> Codes:
    """Grid of 8, 25, 43. bytes 0..1 d; of each 8 bytes from 2 on, the last four bits are the scale."""
    scale_codes = 2 * (blocks[..., 9::8] >> 4) + 1
    return _signed(blocks, "IQ2_XXS", scale_codes, 0.125)


def iq3_xxs(blocks: Blocks) -> Codes:
    """Grid of 4 to 62. bytes 0..1 d; of each 4 bytes from 66 on, the last four bits are the scale."""
    scale_codes = 2 * (blocks[..., 69::4] >> 4) + 1
    return _signed(blocks, "IQ3_XXS", scale_codes, 0.25)


def iq3_s(blocks: Blocks) -> Codes:
    """Grid of odd numbers up to 15: with their signs sixteen levels. bytes 0..1 d, 106..109 two scales a byte."""
    pairs = blocks[..., 106:110]
    scale_codes = 2 * np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*blocks.shape[:2], 8) + 1
    scales = _scales(blocks, scale_codes, 1.0)
    codes = (_integers(blocks, "IQ3_S", scales) + np.int8(15)).view(np.uint8) >> np.uint8(1)
    return Codes("q4", paired(codes), 2 * scales, -15 * scales)


def _signed(blocks: Blocks, name: str, scale_codes: NDArray[np.integer], unit: float) -> Codes:
    scales = _scales(blocks, scale_codes, unit)
    return Codes("q8", _integers(blocks, name, scales), scales)


def _scales(blocks: Blocks, codes: NDArray[np.integer], unit: float) -> NDArray[np.float32]:
    return halves_at(blocks, 0).astype(np.float32)[..., None] * (codes.astype(np.float32) * np.float32(unit))


def _integers(blocks: Blocks, name: str, scales: NDArray[np.float32]) -> NDArray[np.int8]:
    """What times the scale is each value: [rows, blocks, 8, 32]. Nothing times zero is as good as anything."""
    values = expanded(blocks, name).reshape(*scales.shape, 32)
    return np.rint(values / np.where(scales == 0, 1, scales)[..., None]).astype(np.int8)
