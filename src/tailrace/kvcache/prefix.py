"""Names of blocks and what is found under them. A name stands for a whole prefix, never for how it was computed.

name(0) = hash(root, tokens of block 0), name(i) = hash(name(i - 1), tokens of block i). The root stands for all that
changes keys and values besides tokens: weights, KV format, rope settings, tenant.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from struct import Struct

from tailrace.kvcache.block import Block, BlockName, BlockTable

__all__ = ["BlockNamer", "InFlight", "PrefixIndex"]

NAME_BYTES = 16


class BlockNamer:
    """Extends chains of names; each token is hashed once in the life of its sequence."""

    def __init__(self, block_tokens: int, root_parts: Sequence[str]) -> None:
        self._block_tokens = block_tokens
        self._tokens = Struct(f"<{block_tokens}I")  # fixed byte order: names travel between machines
        self._root = blake2b(_framed(root_parts), digest_size=NAME_BYTES)

    def root(self, salt: str) -> BlockName:
        root = self._root.copy()
        root.update(_framed((salt,)))
        return root.digest()

    def extend(self, table: BlockTable, token_ids: Sequence[int], num_blocks: int) -> None:
        """Name the first `num_blocks` runs of `token_ids`, as far as they have no name yet."""
        for index in range(len(table.names), num_blocks):
            start = index * self._block_tokens
            tokens = self._tokens.pack(*token_ids[start : start + self._block_tokens])
            table.names.append(blake2b(table.parent_of(index) + tokens, digest_size=NAME_BYTES).digest())


def _framed(parts: Sequence[str]) -> bytes:
    """Each part behind its length, so that ("ab", "c") and ("a", "bc") differ."""
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "little") + part for part in encoded)


class PrefixIndex:
    """The block to reuse for each name. A second block with the same contents is a twin: sealed, but not listed."""

    def __init__(self) -> None:
        self._blocks: dict[BlockName, Block] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def get(self, name: BlockName) -> Block | None:
        return self._blocks.get(name)

    def add(self, name: BlockName, block: Block) -> None:
        """List the block unless its name is taken."""
        self._blocks.setdefault(name, block)

    def remove(self, name: BlockName) -> None:
        del self._blocks[name]

    def longest_chain(self, names: Sequence[BlockName], limit: int) -> list[Block]:
        """The blocks of the longest prefix, of at most `limit` blocks, that is there as a whole."""
        found: list[Block] = []
        for name in names[:limit]:
            block = self._blocks.get(name)
            if block is None:
                break
            found.append(block)
        return found

    def longest_seen(
        self, names: Sequence[BlockName], limit: int, first_seen: Callable[[int], int]
    ) -> tuple[int, list[Block]]:
        """The longest prefix of which all is there that a row behind it sees: blocks from `first_seen(its end)` on.

        Returns the index of the first of these blocks, and them.
        """
        end, found = limit, list[Block]()  # last to first
        for index in reversed(range(limit)):
            block = self._blocks.get(names[index])
            if block is None:
                end, found = index, []
                continue
            found.append(block)
            first = first_seen(end)
            if index <= first:
                return first, found[: end - first][::-1]
        return 0, []


class InFlight:
    """Names that a running sequence is about to seal: others better wait than compute the same block."""

    def __init__(self) -> None:
        self._owners: dict[BlockName, BlockTable] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._owners

    def __len__(self) -> int:
        return len(self._owners)

    def owned(self) -> tuple[tuple[BlockName, BlockTable], ...]:
        return tuple(self._owners.items())

    def begin(self, table: BlockTable) -> None:
        for name in table.names[table.num_sealed :]:
            self._owners.setdefault(name, table)

    def sealed(self, name: BlockName) -> None:
        self._owners.pop(name, None)

    def abandon(self, table: BlockTable) -> None:
        for name in table.names[table.num_sealed :]:
            if self._owners.get(name) is table:
                del self._owners[name]

    def last_of(self, names: Sequence[BlockName], start: int, limit: int) -> BlockName | None:
        """The end of the run of names in flight that begins at `start`."""
        last = None
        for name in names[start:limit]:
            if name not in self._owners:
                break
            last = name
        return last
