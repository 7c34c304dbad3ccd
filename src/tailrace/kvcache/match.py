"""What of a sequence is in the cache already: whole blocks, and the beginning of one more."""

from dataclasses import dataclass
from typing import NamedTuple

from tailrace.kvcache.block import Block, BlockName

__all__ = ["PrefixMatch", "StartCopy"]


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """`blocks`, from the index `first` on, hold what the row behind the longest sealed prefix sees of it.

    `start` is a block behind them that begins like the sequence goes on, for `num_start_tokens` tokens. `awaited` is
    the last of the names behind `blocks` that are in flight.
    """

    first: int
    blocks: list[Block]
    awaited: BlockName | None = None
    start: Block | None = None
    num_start_tokens: int = 0

    @property
    def end(self) -> int:
        """How many whole blocks of the sequence need no computing."""
        return self.first + len(self.blocks)

    @property
    def num_idle(self) -> int:
        """Blocks that nobody holds."""
        return sum(block.num_users == 0 for block in self.blocks)

    @property
    def content(self) -> bytes:
        """What stands for the tokens of these blocks and those in front of them."""
        node = self.blocks[-1].node if self.blocks else None
        return b"" if node is None else node.content

    def whole(self) -> "PrefixMatch":
        """The same without the part of a block."""
        return PrefixMatch(self.first, self.blocks, self.awaited)


class StartCopy(NamedTuple):
    """The first rows of a block that begins like another sequence's: to be copied before the next step computes."""

    source: int
    target: int
    num_tokens: int
