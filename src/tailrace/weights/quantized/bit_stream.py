"""Small numbers packed without gaps: number i of a row is the `bits` bits from bit i * bits on, lowest first."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "stream_bytes", "unpack"]

_TOGETHER = 8  # so many numbers fill whole bytes, and one 64-bit word at most


def stream_bytes(count: int, bits: int, unit_bytes: int = 1) -> int:
    """The bytes of `count` numbers in whole units."""
    return -(-count * bits // (8 * unit_bytes)) * unit_bytes


def unpack(stream: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """The first `count` numbers of each row of `stream` [rows, bytes]."""
    if bits == 8:
        return stream[:, :count]
    if bits == 4:  # by far the most frequent
        pairs = np.stack([stream & 15, stream >> 4], axis=-1)
        return pairs.reshape(len(stream), 2 * stream.shape[1])[:, :count]
    num_words = -(-count // _TOGETHER)
    words = np.zeros((len(stream), num_words, 8), np.uint8)
    held = stream[:, : num_words * bits]
    padded = np.pad(held, ((0, 0), (0, num_words * bits - held.shape[1])))
    words[..., :bits] = padded.reshape(len(stream), num_words, bits)
    shifts = np.arange(0, _TOGETHER * bits, bits, dtype=np.uint64)
    numbers = (words.view("<u8") >> shifts) & np.uint64((1 << bits) - 1)
    return numbers.astype(np.uint8).reshape(len(stream), num_words * _TOGETHER)[:, :count]


def pack(numbers: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The stream of each row [rows, count], in whole bytes."""
    rows, count = numbers.shape
    padded = np.pad(numbers, ((0, 0), (0, -count % _TOGETHER))).astype(np.uint64)
    shifts = np.arange(0, _TOGETHER * bits, bits, dtype=np.uint64)
    words = np.bitwise_or.reduce(padded.reshape(rows, -1, _TOGETHER) << shifts, axis=-1).astype("<u8")
    stream = np.ascontiguousarray(words).view(np.uint8).reshape(rows, -1, 8)[..., :bits]
    return np.ascontiguousarray(stream.reshape(rows, -1)[:, : stream_bytes(count, bits)])
