"""A block: room for the keys and values of `block_tokens` positions. Only its id and its name are known here."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tailrace.kvcache.eviction import Uses
from tailrace.kvcache.lifecycle import BlockState, moved

__all__ = ["Block", "BlockName", "BlockTable", "Node", "Owner"]

BlockName = bytes

_UNUSED = Uses(0.0)


@dataclass(frozen=True, slots=True)
class Owner:
    """What all names of a sequence stand for besides its tokens; each is a digest of 16 bytes.

    `root`, the name in front of a chain's first, is made of the two others.
    """

    fingerprint: bytes  # weights, KV format, rope settings
    tenant: bytes
    root: BlockName


@dataclass(slots=True, eq=False)
class Block:
    """One place in the pool. A sealed block has a name and what stands for its contents, as `node`; others have none.

    Of several with one name the first is found under it, as long as it is there; the others are its twins.
    """

    block_id: int
    num_users: int = 0
    node: "Node | None" = None
    state: BlockState = BlockState.RELEASED
    uses: Uses = _UNUSED  # of what is in it; the time during which it is held does not count

    @property
    def name(self) -> BlockName | None:
        return None if self.node is None else self.node.name

    @property
    def is_leaf(self) -> bool:
        """Whether no block that can be found continues it."""
        return self.node is None or self.node.child is None

    def move(self, to: BlockState) -> None:
        self.state = moved(self.state, to)


@dataclass(slots=True, eq=False)
class Node:
    """A name in the tree of names. It is there while a block is found under it, or something continues it.

    Twins have nodes of their own, which are not in the tree.

        root        no block, no parent
          | child
          v    next
         n0 <-------> n0'       what continues the same name, the newest first
          | child
         n1
    """

    name: BlockName
    owner: Owner
    front: BlockName | None = None  # the name in front; None while nothing was sealed under this one
    tokens: Sequence[int] = ()  # of the block; an array, which is one object, since there may be a million of them
    content: bytes = b""  # a digest of all tokens up to the block's end, and of nothing else
    block: Block | None = field(default=None, repr=False)
    parent: "Node | None" = field(default=None, repr=False)
    child: "Node | None" = field(default=None, repr=False)
    next: "Node | None" = field(default=None, repr=False)
    previous: "Node | None" = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class BlockTable:
    """The blocks of one sequence, first to last, and the chain of names behind them.

        names    root -> n0 -> n1 -> n2 -> n3       of full runs of known tokens; known before they are computed
        blocks                 b1    b2    b3   b4  held while the sequence runs
                         gone  sealed      being filled

    Gone are, or never taken were, the first blocks of a sequence whose window has left them behind. `num_sealed` counts
    them too. From block `severed_at` on, blocks get no names any more: what they continue was forgotten while the
    sequence ran. `num_hit_tokens` is what the cache gave at the first admission; None before it.
    """

    owner: Owner
    names: list[BlockName] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    first: int = 0  # the index of blocks[0] in the sequence
    num_sealed: int = 0
    num_cached: int = 0  # tokens that needed no computing when the blocks were taken
    start: BlockName | None = None  # of the block whose first rows were copied to block num_cached // block_tokens
    severed_at: int | None = None
    group: int = 0  # of sequences that live about as long, see `RequestGroups`
    num_hit_tokens: int | None = None
    request_id: str | None = None  # who uses it, for who wonders what room was made for
    content: bytes = b""  # a digest of all tokens of the sealed blocks, while these get names

    @property
    def end(self) -> int:
        """The index behind the last block."""
        return self.first + len(self.blocks)

    def clear(self) -> None:
        """Nothing is held any more."""
        self.blocks = []
        self.first = self.num_sealed = self.num_cached = 0
        self.severed_at = self.start = None

    def parent_of(self, index: int) -> BlockName:
        return self.names[index - 1] if index else self.owner.root
