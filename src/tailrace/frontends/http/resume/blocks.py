"""Chains of blocks in memory that processes share: an owner takes and writes its own, everybody may read all.

    | next 4 | payload 4,092 |      `next` is the number of the next block plus one; 0: this is the last

A fresh block's payload is all ones, so that its words are there once they are not: a word of 4 bytes is written whole.
"""

from collections.abc import Sequence

__all__ = ["BLOCK_BYTES", "NO_WORD", "PAYLOAD_BYTES", "PAYLOAD_WORDS", "Blocks"]

BLOCK_BYTES = 4096
PAYLOAD_BYTES = BLOCK_BYTES - 4
PAYLOAD_WORDS = PAYLOAD_BYTES // 4
NO_WORD = 0xFFFF_FFFF

_EMPTY = b"\xff" * PAYLOAD_BYTES


class Blocks:
    """The blocks of `memory`, of which `own` are to be given out here."""

    def __init__(self, memory: memoryview, own: range) -> None:
        self._bytes = memory
        self._words = memory.cast("I")
        self._free = list(reversed(own))

    def __len__(self) -> int:
        return len(self._bytes) // BLOCK_BYTES

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, after: int | None = None) -> int | None:
        """An empty block, the one behind `after` in its chain; None when all are in use."""
        if not self._free:
            return None
        block = self._free.pop()
        at = block * BLOCK_BYTES
        self._bytes[at + 4 : at + BLOCK_BYTES] = _EMPTY
        self._words[at // 4] = 0
        if after is not None:
            self._words[after * BLOCK_BYTES // 4] = block + 1
        return block

    def give_back(self, blocks: Sequence[int]) -> None:
        self._free += blocks

    def withhold(self, blocks: Sequence[int]) -> None:
        """These are in use already."""
        used = set(blocks)
        self._free = [block for block in self._free if block not in used]

    def write(self, block: int, payload: bytes) -> None:
        at = block * BLOCK_BYTES + 4
        self._bytes[at : at + len(payload)] = payload

    def write_word(self, block: int, place: int, word: int) -> None:
        self._words[block * BLOCK_BYTES // 4 + 1 + place] = word

    def chain(self, first: int) -> list[int]:
        """The chain that begins there. It may be another owner's and change meanwhile: then it is any, but ends."""
        chain, block = list[int](), first
        while 0 <= block < len(self) and len(chain) < len(self):
            chain.append(block)
            block = self._words[block * BLOCK_BYTES // 4] - 1
        return chain

    def read(self, first: int) -> bytes:
        """All payloads of a chain."""
        places = [block * BLOCK_BYTES for block in self.chain(first)]
        return b"".join([self._bytes[at + 4 : at + BLOCK_BYTES] for at in places])
