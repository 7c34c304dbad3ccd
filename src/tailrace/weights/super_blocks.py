"""Block types of 256 values, whose groups of 32 have scales of their own: Q3_K, Q4_K, IQ4_XS, TQ1_0, TQ2_0.

A scale is a float16 of the block times a small integer of the group, which float32 holds exactly.
"""

import numpy as np
from numpy.typing import NDArray

from tailrace.weights.block_codes import Blocks, Codes, halves_at, nibbles, paired
from tailrace.weights.small_blocks import NONLINEAR

__all__ = ["iq4_xs", "q3_k", "q4_k", "tq1_0", "tq2_0"]

_GROUPS = 8  # of a block
_QUARTERS = np.array([0, 2, 4, 6], np.uint8)  # where the four 2-bit codes of a byte begin
_POWERS = np.array([1, 3, 9, 27, 81], np.uint8)


def q4_k(blocks: Blocks) -> Codes:
    """Eight groups of 32 share two float16; with a float32 scale and offset each they are ours, exactly.

    bytes 0..3    d, dmin
    bytes 4..15   eight 6-bit scales and minima; of the last four, the upper two bits sit above the first four
    bytes 16..143 four chunks of 32 bytes: low nibbles are one group, high nibbles the next
    """
    first, minima, last = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    scale_codes = np.concatenate([first & 63, (last & 15) | ((first >> 6) << 4)], axis=-1)
    offset_codes = np.concatenate([minima & 63, (last >> 4) | ((minima >> 6) << 4)], axis=-1)
    offsets = _times(halves_at(blocks, 2), -offset_codes.astype(np.float32))
    chunks = blocks[..., 16:].reshape(*blocks.shape[:2], 4, 2, 16)
    front, back = chunks[..., 0, :], chunks[..., 1, :]
    codes = np.stack([(front & 15) | (back << 4), (front >> 4) | (back & 0xF0)], axis=-2)
    return Codes("q4", codes, _times(halves_at(blocks, 0), scale_codes), offsets)


def q3_k(blocks: Blocks) -> Codes:
    """Sixteen groups of 16: a scale of -32..31 times a code of -4..3 is a byte, so that d alone is left as the scale.

    bytes 0..31    third bits: bit k of byte i is that of value 32 k + i; less 4
    bytes 32..95   two bits each, four values a byte, 32 apart
    bytes 96..107  sixteen 6-bit scales: four low bits each in eight bytes, two high bits each in four
    bytes 108..109 d

    The largest product is (-32) * (-4) = 128, the smallest -124: with the sign of both turned they are bytes.
    """
    shape = blocks.shape[:2]
    third = np.unpackbits(blocks[..., :32], axis=-1, bitorder="little").reshape(*shape, 32, 8).swapaxes(2, 3)
    low = (blocks[..., 32:96].reshape(*shape, 2, 1, 32) >> _QUARTERS[:, None] & 3).reshape(third.shape)
    codes = (low | (third << 2)).view(np.int8) - np.int8(4)
    products = codes.reshape(*shape, 16, 16) * -_q3_scales(blocks[..., 96:108])[..., None]
    return Codes("q8", products, np.repeat(-halves_at(blocks, 108), _GROUPS, axis=1))


def _q3_scales(packed: NDArray[np.uint8]) -> NDArray[np.int8]:
    low = nibbles(packed[..., :8])
    high = (packed[..., None, 8:] >> _QUARTERS[:, None] & 3).reshape(low.shape)
    return (low | (high << 4)).view(np.int8) - np.int8(32)


def iq4_xs(blocks: Blocks) -> Codes:
    """Levels of IQ4_NL, and eight 6-bit scales less 32.

    bytes 0..1   d
    bytes 2..3   two high bits of each scale
    bytes 4..7   four low bits of each
    bytes 8..135 eight groups in the order of IQ4_NL
    """
    low = np.stack([blocks[..., 4:8] & 15, blocks[..., 4:8] >> 4], axis=-1).reshape(*blocks.shape[:2], _GROUPS)
    high = (blocks[..., 2:4, None] >> _QUARTERS & 3).reshape(low.shape)
    scale_codes = (low | (high << 4)).view(np.int8) - np.int8(32)
    codes = NONLINEAR[nibbles(blocks[..., 8:].reshape(*blocks.shape[:2], _GROUPS, 16))]
    return Codes("q8", codes, _times(halves_at(blocks, 0), scale_codes))


def tq2_0(blocks: Blocks) -> Codes:
    """Two bits each, four values a byte, 32 apart; less 1. bytes 0..63 codes, 64..65 d."""
    codes = blocks[..., :64].reshape(*blocks.shape[:2], 2, 1, 32) >> _QUARTERS[:, None] & np.uint8(3)
    return _less_one(codes.reshape(*blocks.shape[:2], _GROUPS, 32), halves_at(blocks, 64))


def tq1_0(blocks: Blocks) -> Codes:
    """Five ternary digits a byte, as a fraction of 256 whose first digit is the first value; less 1.

    bytes 0..31 values 0..159, 32 apart; bytes 32..47 values 160..239, 16 apart; bytes 48..51 the last 16, 4 apart;
    bytes 52..53 d
    """
    parts = [
        (blocks[..., None, begin:end] * _POWERS[:digits, None]).reshape(*blocks.shape[:2], -1)
        for begin, end, digits in ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    ]
    digits = (np.concatenate(parts, axis=-1).astype(np.uint16) * 3 >> 8).astype(np.uint8)
    return _less_one(digits.reshape(*blocks.shape[:2], _GROUPS, 32), halves_at(blocks, 52))


def _less_one(codes: NDArray[np.uint8], d: NDArray[np.floating]) -> Codes:
    scales = np.repeat(d, _GROUPS, axis=1)
    return Codes("q4", paired(codes), scales, -scales)


def _times(d: NDArray[np.floating], codes: NDArray[np.generic]) -> NDArray[np.float32]:
    """The float16 of each block times what its groups have: [rows, blocks, groups]."""
    return d.astype(np.float32)[..., None] * codes.astype(np.float32)
