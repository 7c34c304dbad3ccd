"""Block types with one scale for 32 values: Q4_0, Q4_1, Q5_0, Q8_0, IQ4_NL, MXFP4."""

import numpy as np
from numpy.typing import NDArray

from tailrace.weights.block_codes import Blocks, Codes, halves_at, nibbles

__all__ = ["NONLINEAR", "iq4_nl", "mxfp4", "q4_0", "q4_1", "q5_0", "q8_0"]

# What a code of IQ4_NL and IQ4_XS stands for: levels that lie closer together near zero.
NONLINEAR = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
# Twice what a code of MXFP4 (e2m1) stands for, which makes all of them integers.
_TWICE_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


def q8_0(blocks: Blocks) -> Codes:
    """float16 scale, 32 signed bytes."""
    return Codes("q8", blocks[..., 2:].view(np.int8), halves_at(blocks, 0))


def q4_0(blocks: Blocks) -> Codes:
    """float16 scale, 16 bytes whose low halves are values 0..15 and whose high halves are 16..31, less 8."""
    scales = halves_at(blocks, 0)
    return Codes("q4", blocks[..., 2:], scales, scales.astype(np.float32) * np.float32(-8))


def q4_1(blocks: Blocks) -> Codes:
    """float16 scale and offset, 16 bytes in the order of Q4_0."""
    return Codes("q4", blocks[..., 4:], halves_at(blocks, 0), halves_at(blocks, 2))


def q5_0(blocks: Blocks) -> Codes:
    """float16 scale, 32 fifth bits, 16 bytes in the order of Q4_0; less 16."""
    fifth = np.unpackbits(blocks[..., 2:6], axis=-1, bitorder="little")
    codes = (nibbles(blocks[..., 6:]) | (fifth << 4)).view(np.int8) - np.int8(16)
    return Codes("q8", codes, halves_at(blocks, 0))


def iq4_nl(blocks: Blocks) -> Codes:
    """float16 scale, 16 bytes in the order of Q4_0 that choose among sixteen levels."""
    return Codes("q8", NONLINEAR[nibbles(blocks[..., 2:])], halves_at(blocks, 0))


def mxfp4(blocks: Blocks) -> Codes:
    """A power of two (e8m0), 16 bytes of e2m1 in the order of Q4_0."""
    return Codes("q8", _TWICE_E2M1[nibbles(blocks[..., 1:])], _half_of_e8m0(blocks[..., 0]))


def _half_of_e8m0(exponents: NDArray[np.uint8]) -> NDArray[np.float32]:
    """2 ** (e - 128), the smallest two of which are subnormal in float32."""
    return np.ldexp(np.float32(1), exponents.astype(np.int32) - 128)
