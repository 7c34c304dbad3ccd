"""When and which blocks move together, so that chunks come free whose memory can be given back. Copies no byte."""

from collections.abc import Callable, Container
from itertools import islice

from tailrace.kvcache.block import Block
from tailrace.kvcache.chunks import Chunk
from tailrace.kvcache.config import CompactionConfig
from tailrace.kvcache.lifecycle import BlockState
from tailrace.kvcache.pool import BlockPool

__all__ = ["Compaction"]

_MAX_CANDIDATES = 8  # chunks looked at for one that can be emptied


class Compaction:
    """Empties the emptiest chunks of each group into its fullest.

    A block that is written to from outside, or read, stays where it is, and so does its chunk.
    """

    def __init__(self, pool: BlockPool, config: CompactionConfig | None) -> None:
        self.num_moved = 0
        self.is_active = False  # it has just moved something, and may have more to move
        self._pool = pool
        self._config = config
        self._is_on = False
        self._is_urgent = False

    def step(self, *, is_quiet: bool, pinned: Callable[[], Container[int]]) -> list[tuple[int, int]]:
        """Move some blocks in the books: source must be copied to target before anybody looks there.

        `is_quiet`: the next step computes no prompt, so that nobody waits longer. `pinned` tells the ids of blocks that
        must stay. No id is in two moves.
        """
        num_moves = self._num_moves(is_quiet=is_quiet)
        moves = self._move(num_moves, pinned()) if num_moves else []
        self.num_moved += len(moves)
        self.is_active = bool(moves)
        return moves

    def _num_moves(self, *, is_quiet: bool) -> int:
        config, lost = self._config, self._pool.chunks.lost_share
        if config is None:
            return 0
        self._is_on = lost > (config.end_below if self._is_on else config.begin_above)
        self._is_urgent = lost > (config.urgent_until if self._is_urgent else config.urgent_above)
        if self._is_urgent:
            return config.urgent_moves_a_step
        return config.moves_a_step if self._is_on and is_quiet else 0

    def _move(self, num_moves: int, pinned: Container[int]) -> list[tuple[int, int]]:
        moves: list[tuple[int, int]] = []
        filled: set[Chunk] = set()  # something was moved to them
        for group in self._pool.chunks.groups:
            while len(moves) < num_moves and (chunk := self._source(group, pinned, filled)) is not None:
                moves += self._empty(chunk, num_moves - len(moves), filled)
        return moves

    def _source(self, group: int, pinned: Container[int], filled: Container[Chunk]) -> Chunk | None:
        """The emptiest chunk that can be emptied into other chunks of the group in which something lies."""
        chunks = self._pool.chunks
        room = chunks.room_of(group)
        for chunk in islice(chunks.emptiest_first(group), _MAX_CANDIDATES):
            if room - len(chunk.free) < chunk.num_occupied:
                return None  # and those that are fuller need more room
            if chunk not in filled and all(_is_movable(block, pinned) for block in chunk.blocks):
                return chunk
        return None

    def _empty(self, source: Chunk, num_moves: int, filled: set[Chunk]) -> list[tuple[int, int]]:
        moves: list[tuple[int, int]] = []
        occupied = [block for block in source.blocks if block.state is not BlockState.FREE]
        for block in occupied[:num_moves]:
            target = self._pool.chunks.fullest(source.group, besides=source)
            assert target is not None, "a chunk was to be emptied for which others have no room"
            filled.add(target)
            moves.append((block.block_id, self._pool.relocate(block, target)))
        return moves


def _is_movable(block: Block, pinned: Container[int]) -> bool:
    """A reserved block holds nothing that could be copied, and soon something will be written to it."""
    return block.state is not BlockState.RESERVED and block.block_id not in pinned
