"""Names of blocks. A name stands for a whole prefix, never for how it was computed.

name(0) = hash(root, tokens of block 0), name(i) = hash(name(i - 1), tokens of block i). The root stands for all that
changes keys and values besides tokens: the fingerprint (weights, KV format, rope settings) and the tenant.
"""

import sys
from array import array
from collections.abc import Sequence
from hashlib import blake2b

from tailrace.kvcache.block import BlockName, BlockTable, Owner

__all__ = ["BlockNamer", "root_of"]

NAME_BYTES = 16


class BlockNamer:
    """Extends chains of names; each token is hashed once in the life of its sequence, and once when it is sealed."""

    def __init__(self, block_tokens: int, root_parts: Sequence[str]) -> None:
        self.fingerprint = _digest(_framed(root_parts))
        self._block_tokens = block_tokens

    def owner(self, salt: str) -> Owner:
        tenant = _digest(_framed((salt,)))
        return Owner(self.fingerprint, tenant, root_of(self.fingerprint, tenant))

    def extend(self, table: BlockTable, token_ids: Sequence[int], num_blocks: int) -> None:
        """Name the first `num_blocks` runs of `token_ids`, as far as they have no name yet."""
        first, size = len(table.names), self._block_tokens
        if first >= num_blocks:
            return
        name = table.parent_of(first)
        raw = _raw(token_ids[first * size : num_blocks * size])
        for start in range(0, len(raw), 4 * size):
            name = _digest(name + raw[start : start + 4 * size])
            table.names.append(name)

    def content(self, before: bytes, token_ids: Sequence[int]) -> bytes:
        """What stands for whole blocks of tokens and all in front of them, for which `before` stands, and for no owner.

        Nothing stands in front of the first, so that `before` is empty.
        """
        raw, size = _raw(token_ids), 4 * self._block_tokens
        for start in range(0, len(raw), size):
            before = _digest(before + raw[start : start + size])
        return before


def root_of(fingerprint: bytes, tenant: bytes) -> BlockName:
    """What the first block of each chain of this tenant has for its parent."""
    return _digest(fingerprint + tenant)


def _digest(message: bytes) -> bytes:
    return blake2b(message, digest_size=NAME_BYTES).digest()


def _raw(token_ids: Sequence[int]) -> bytes:
    """4 bytes a token, in a fixed order: names travel between machines."""
    packed = array("I", token_ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _framed(parts: Sequence[str]) -> bytes:
    """Each part behind its length, so that ("ab", "c") and ("a", "bc") differ."""
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in encoded)
