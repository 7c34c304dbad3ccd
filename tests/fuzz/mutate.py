"""Damages inputs: bits, numbers, lengths, whole pieces of others. The same seed gives the same damage."""

import random
from collections.abc import Callable, Sequence

__all__ = ["mutated"]

MAX_BYTES = 1 << 16

_WORDS = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-1", b"1e999", b"NaN", b"0.1", b"\n", b"\r"),
    *(b"\x00", b"\xff", b"\xc0\x80", b"\\ud800", b"\xed\xa0\x80", b"../", b"/etc/passwd", b"data: ", b"\n\n", b": "),
    *(b'"n":', b'"stream":true', b'"max_tokens":', b'"role":"user"', b'"type":"text"', b"9" * 40, b"[" * 600),
)
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)
_WIDTHS = (1, 2, 4, 8)


def mutated(chance: random.Random, inputs: Sequence[bytes]) -> bytes:
    """One of the inputs, damaged one to six times."""
    data = bytearray(chance.choice(inputs))
    for _ in range(chance.randint(1, 6)):
        chance.choice(_WAYS)(chance, data, inputs)
    return bytes(data[:MAX_BYTES])


def _place(chance: random.Random, data: bytearray) -> int:
    """Often near the beginning, where heads are."""
    end = len(data) if chance.random() < 0.5 else min(len(data), 64)
    return chance.randint(0, end)


def _flip(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    if data:
        data[min(_place(chance, data), len(data) - 1)] ^= 1 << chance.randrange(8)


def _set_byte(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    if data:
        data[min(_place(chance, data), len(data) - 1)] = chance.randrange(256)


def _set_number(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    width, begin = chance.choice(_WIDTHS), _place(chance, data)
    number = (chance.choice(_NUMBERS) + chance.choice((0, 0, -1, 1))) % (1 << 8 * width)
    data[begin : begin + width] = number.to_bytes(width, chance.choice(("little", "big")))


def _insert_word(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    begin = _place(chance, data)
    data[begin:begin] = chance.choice(_WORDS)


def _replace_by_word(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    begin = _place(chance, data)
    data[begin : begin + chance.randint(1, 16)] = chance.choice(_WORDS)


def _cut(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    begin = _place(chance, data)
    del data[begin : begin + chance.randint(1, 64)]


def _truncate(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    del data[_place(chance, data) :]


def _repeat(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    begin = _place(chance, data)
    piece = bytes(data[begin : begin + chance.randint(1, 64)])
    data[begin:begin] = piece * chance.randint(1, 16)


def _splice(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    other, begin = chance.choice(inputs), _place(chance, data)
    start = chance.randint(0, len(other))
    data[begin : begin + chance.randint(0, 64)] = other[start : start + chance.randint(1, 128)]


def _noise(chance: random.Random, data: bytearray, inputs: Sequence[bytes]) -> None:
    begin = _place(chance, data)
    data[begin:begin] = chance.randbytes(chance.randint(1, 16))


_WAYS: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    *(_flip, _set_byte, _set_number, _insert_word, _replace_by_word),
    *(_cut, _truncate, _repeat, _splice, _noise),
)
