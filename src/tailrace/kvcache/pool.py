"""The pool: which blocks are free, in use, or idle (unused, still named). Knows nothing of tokens or prefixes."""

from collections import OrderedDict
from collections.abc import Iterator

from tailrace.kvcache.block import Block

__all__ = ["BlockPool"]


class BlockPool:
    """Every block is in exactly one of three places: `free`, `idle` (least recently used first), or held by users."""

    def __init__(self, num_blocks: int) -> None:
        self.blocks = tuple(Block(block_id) for block_id in range(num_blocks))
        self._free = list(reversed(self.blocks))  # a stack: low ids first, so little memory is touched
        self._idle: OrderedDict[int, Block] = OrderedDict()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_idle(self) -> int:
        return len(self._idle)

    @property
    def num_available(self) -> int:
        """Blocks that `take` can hand out."""
        return len(self._free) + len(self._idle)

    @property
    def num_used(self) -> int:
        return len(self.blocks) - self.num_available

    def free_blocks(self) -> Iterator[Block]:
        return iter(self._free)

    def idle_blocks(self) -> Iterator[Block]:
        """Oldest first: the order in which they would be evicted."""
        return iter(self._idle.values())

    def take(self) -> Block:
        """A block for one user: a free one, else the idle one longest unused, which still has its name."""
        block = self._free.pop() if self._free else self._idle.popitem(last=False)[1]
        block.num_users = 1
        return block

    def share(self, block: Block) -> None:
        """Add a user to an idle or used block."""
        if block.num_users == 0:
            del self._idle[block.block_id]
        block.num_users += 1

    def put_free(self, block: Block) -> None:
        block.num_users = 0
        self._free.append(block)

    def put_idle(self, block: Block) -> None:
        block.num_users = 0
        self._idle[block.block_id] = block

    def touch(self, block: Block) -> None:
        """Make an idle block the most recently used one; leave a used one alone."""
        if block.block_id in self._idle:
            self._idle.move_to_end(block.block_id)
