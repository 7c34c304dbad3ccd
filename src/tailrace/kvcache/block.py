"""A block: room for the keys and values of `block_tokens` positions. Only its id and its name are known here."""

from dataclasses import dataclass, field

__all__ = ["Block", "BlockName", "BlockTable"]

BlockName = bytes


@dataclass(slots=True, eq=False)
class Block:
    """One place in the pool.

    A sealed block has the name of its contents and, as `parent`, the one before it in the chain. Others have neither.
    """

    block_id: int
    num_users: int = 0
    name: BlockName | None = None
    parent: BlockName | None = None

    def forget(self) -> None:
        self.name = self.parent = None


@dataclass(slots=True, eq=False)
class BlockTable:
    """The blocks of one sequence, first to last, and the chain of names behind them.

        names    root -> n0 -> n1 -> n2 -> n3       of full runs of known tokens; known before they are computed
        blocks                 b1    b2    b3   b4  held while the sequence runs
                         gone  sealed      being filled

    Gone are, or never taken were, the first blocks of a sequence whose window has left them behind. `num_sealed` counts
    them too. `num_hit_tokens` is what the cache gave at the first admission; None before it.
    """

    root: BlockName
    names: list[BlockName] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    first: int = 0  # the index of blocks[0] in the sequence
    num_sealed: int = 0
    num_hit_tokens: int | None = None

    @property
    def end(self) -> int:
        """The index behind the last block."""
        return self.first + len(self.blocks)

    def parent_of(self, index: int) -> BlockName:
        return self.names[index - 1] if index else self.root
