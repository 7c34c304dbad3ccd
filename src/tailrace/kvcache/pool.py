"""The pool: which blocks are free, held, or idle (unused, still named). Knows nothing of tokens or prefixes."""

from collections.abc import Iterator

from tailrace.kvcache.block import Block
from tailrace.kvcache.chunks import ChooseChunk, Chunk, ChunkMap, fullest_first
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.eviction import EvictionQueue, Standing, Uses
from tailrace.kvcache.lifecycle import BlockState, moved

__all__ = ["BlockPool"]

_NOBODY = Uses(0.0)
_NONE = (_NOBODY, _NOBODY)


class BlockPool:
    """Every block is in exactly one of three places: `free`, `idle` (still named), or held by users.

    An idle block that no other continues, a leaf, may be evicted, in the order of the policy: a chain goes from its
    end, unless `is_windowed`: then it is of use without its beginning, and any block may go. Whoever links and unlinks
    blocks says so with `leaf_changed`. Times are those of the last `advance`. Neighbours that were used together share
    the object that says so.
    """

    def __init__(self, config: KvCacheConfig, choose: ChooseChunk = fullest_first) -> None:
        self.is_windowed = config.window_tokens is not None
        self.blocks = [Block(block_id) for block_id in range(config.num_blocks)]  # by id
        self.chunks = ChunkMap(self.blocks, config.chunk_blocks, choose)
        self._idle: dict[Block, None] = {}  # in the order in which they became so
        self._leaves = EvictionQueue[Block](config.eviction)  # of the idle ones
        self._num_held = {BlockState.RESERVED: 0, BlockState.FILLING: 0, BlockState.SEALED: 0}
        self._now_s = 0.0
        self._fresh = Uses(0.0)
        self._renewed = self._ended = _NONE

    @property
    def num_free(self) -> int:
        """Blocks that can be taken, with memory or without."""
        return self.chunks.num_free

    @property
    def num_free_with_memory(self) -> int:
        return self.chunks.num_free - self.chunks.num_released

    @property
    def num_idle(self) -> int:
        return len(self._idle)

    @property
    def num_available(self) -> int:
        """Blocks that are free or can be evicted."""
        return self.chunks.num_free + len(self._idle)

    @property
    def num_used(self) -> int:
        return len(self.blocks) - self.num_available

    @property
    def num_in_state(self) -> dict[BlockState, int]:
        num_released = self.chunks.num_released
        others = {BlockState.RELEASED: num_released, BlockState.FREE: self.num_free - num_released}
        return others | self._num_held | {BlockState.IDLE: self.num_idle}

    @property
    def now_s(self) -> float:
        return self._now_s

    @property
    def ttl_s(self) -> float:
        return self._leaves.config.ttl_s

    def free_blocks(self) -> Iterator[Block]:
        return self.chunks.free_blocks()

    def idle_blocks(self) -> Iterator[Block]:
        """In the order in which they became idle."""
        return iter(self._idle)

    def is_evictable(self, block: Block) -> bool:
        return block in self._leaves

    def advance(self, now_s: float) -> None:
        """It is `now_s`: what is taken, shared or given up from here on is so then."""
        self._now_s, self._fresh = now_s, Uses(now_s)
        self._renewed = self._ended = _NONE

    def take(self, group: int = 0) -> Block:
        """A free block, for one user. There must be one: else make the `victim` free first."""
        return self.take_all(1, group)[0]

    def take_all(self, count: int, group: int = 0) -> list[Block]:
        """So many free blocks, each for one user. There must be so many. `group`: see `ChooseChunk`."""
        blocks = self.chunks.take(count, group)
        for block in blocks:
            block.state = moved(block.state, BlockState.RESERVED)
            block.num_users = 1
            block.uses = self._fresh
        self._num_held[BlockState.RESERVED] += count
        return blocks

    def fill(self, block: Block) -> None:
        """The next rows go to this reserved block."""
        self._hold_as(block, BlockState.FILLING)

    def seal(self, block: Block) -> None:
        """This block is full."""
        self._hold_as(block, BlockState.SEALED)

    def victim(self) -> tuple[Block, Standing] | None:
        """The idle block to go next, and why; it stays. None when there is no idle one."""
        found = self._leaves.victim(self._now_s)
        if found is not None:
            return found
        if (block := self._last_of_a_chain()) is None:
            return None
        return block, block.uses.standing(self._now_s, self._leaves.config)[0]

    def share(self, block: Block) -> None:
        """Add a user to an idle or used block."""
        if block.num_users == 0:
            self._leave_idle(block)
            block.move(BlockState.SEALED)
            self._num_held[BlockState.SEALED] += 1
        block.num_users += 1
        if block.uses is not self._renewed[0]:
            self._renewed = block.uses, block.uses.again(self._now_s)
        block.uses = self._renewed[1]

    def put_free(self, block: Block) -> None:
        """Make a nameless block free, whatever it was."""
        was = block.state
        block.state = moved(was, BlockState.FREE)
        if was is BlockState.IDLE:
            self._leave_idle(block)
        else:
            self._num_held[was] -= 1
        block.num_users = 0
        self.chunks.put(block, self._now_s)

    def put_idle(self, block: Block) -> None:
        """Nobody uses this sealed block any more."""
        block.state = moved(block.state, BlockState.IDLE)
        self._num_held[BlockState.SEALED] -= 1
        block.num_users = 0
        self._end_use(block)
        self._idle[block] = None
        self.leaf_changed(block)

    def relocate(self, block: Block, target: Chunk) -> int:
        """Let a block that is not free change places, and ids, with a free one; see `ChunkMap.relocate`."""
        source = block.block_id
        self.chunks.relocate(block, target, self._now_s)
        self.blocks[source], self.blocks[block.block_id] = self.blocks[block.block_id], block
        return block.block_id

    def touch(self, block: Block) -> None:
        """An idle block was used again just now; leave a used one alone."""
        if block in self._idle:
            self._leave_idle(block)
            self._end_use(block)
            self._idle[block] = None
            self.leaf_changed(block)

    def leaf_changed(self, block: Block) -> None:
        """Note that a block may have become a leaf, or have ceased to be one. Harmless when it has not."""
        may_go = block.is_leaf or self.is_windowed
        if block.state is not BlockState.IDLE or may_go == (block in self._leaves):
            return
        if may_go:
            self._leaves.add(block, block.uses)
        else:
            self._leaves.remove(block)

    def oldest(self) -> Block | None:
        """Of the idle leaves, the one not used for longest."""
        return self._leaves.oldest()

    @property
    def empty_chunk_s(self) -> float | None:
        """When the chunk whose blocks have all been free for longest became so; None when there is none with memory."""
        return self.chunks.empty_s

    def _end_use(self, block: Block) -> None:
        if block.uses is not self._ended[0]:
            self._ended = block.uses, block.uses.until(self._now_s)
        block.uses = self._ended[1]

    def _hold_as(self, block: Block, state: BlockState) -> None:
        was = block.state
        block.state = moved(was, state)
        self._num_held[was] -= 1
        self._num_held[state] += 1

    def _leave_idle(self, block: Block) -> None:
        del self._idle[block]
        if block in self._leaves:
            self._leaves.remove(block)

    def _last_of_a_chain(self) -> Block | None:
        """An idle block that only used ones continue. That takes a twin of it in use: rare, so it may take long."""
        fronts = {block.node.front for block in self._idle if block.node is not None}
        return next((block for block in self._idle if block.name not in fronts), None)
