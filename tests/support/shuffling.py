"""A KV cache whose blocks never rest: whatever is computed must be the same wherever they lie."""

import random

from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.lifecycle import BlockState

__all__ = ["ShufflingCache"]

_MAX_MOVES = 6  # a step


class ShufflingCache(KvCache):
    """Moves any blocks anywhere, each time it is asked."""

    def __init__(self, config: KvCacheConfig, source: random.Random | None = None) -> None:
        super().__init__(config)
        self._source = source or random.Random(0)

    def compact(self, *, is_quiet: bool) -> list[tuple[int, int]]:
        pool, fixed = self._pool, self._pinned.keys() | self._arriving
        states = self._source.choice([(BlockState.FILLING,), (BlockState.FILLING, BlockState.SEALED, BlockState.IDLE)])
        movable = [block for block in pool.blocks if block.state in states and block.block_id not in fixed]
        partial = [chunk for group in pool.chunks.groups for chunk in pool.chunks.emptiest_first(group)]
        chunks = self._source.sample(partial, min(len(partial), _MAX_MOVES))
        outside = [block for block in movable if all(block not in chunk.blocks for chunk in chunks)]
        blocks = self._source.sample(outside, min(len(chunks), len(outside)))
        moves = [(block.block_id, pool.relocate(block, chunk)) for block, chunk in zip(blocks, chunks, strict=False)]
        self._compaction.num_moved += len(moves)
        return moves
