"""The KV cache of one engine: who holds which block, and which prefixes need no computing. Decides; moves no byte."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace.kvcache.audit import audit
from tailrace.kvcache.block import Block, BlockName, BlockTable
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import BlockNamer, InFlight, PrefixIndex

__all__ = ["KvCache", "KvCacheConfig", "KvCacheStats", "PrefixMatch"]


@dataclass(frozen=True, slots=True)
class KvCacheStats:
    num_used: int  # held by a sequence
    num_cached: int  # idle, named, reusable
    num_free: int
    num_total: int
    num_query_tokens: int  # asked for at first admissions, since the start
    num_hit_tokens: int  # of these, found
    num_evicted: int  # idle blocks given to others, since the start


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """`blocks`, from the index `first` on, hold what the row behind the longest sealed prefix sees of it.

    `awaited` is the last of the names behind it that are in flight.
    """

    first: int
    blocks: list[Block]
    awaited: BlockName | None

    @property
    def end(self) -> int:
        """How many blocks of the sequence need no computing."""
        return self.first + len(self.blocks)


class KvCache:
    """Blocks go to sequences through tables: `open`, then `match`, `acquire`, `grow`, `seal`, `slide`, `release`.

    Invariants (see `check`): a block is free, idle or used; idle blocks are named and findable; of two idle blocks of
    one chain the later is evicted first, unless there is a window: then a chain is of use without its beginning.
    """

    def __init__(self, config: KvCacheConfig) -> None:
        self.config = config
        self._block_tokens = config.block_tokens
        self._namer = BlockNamer(config.block_tokens, config.root_parts)
        self._pool = BlockPool(config.num_blocks)
        self._index = PrefixIndex()
        self._in_flight = InFlight()
        self._held: set[BlockTable] = set()
        self._num_query_tokens = 0
        self._num_hit_tokens = 0
        self._num_evicted = 0

    @property
    def stats(self) -> KvCacheStats:
        pool = self._pool
        return KvCacheStats(
            num_used=pool.num_used,
            num_cached=pool.num_idle,
            num_free=pool.num_free,
            num_total=self.config.num_blocks,
            num_query_tokens=self._num_query_tokens,
            num_hit_tokens=self._num_hit_tokens,
            num_evicted=self._num_evicted,
        )

    def open(self, salt: str) -> BlockTable:
        """An empty table; it holds nothing until `acquire`."""
        return BlockTable(self._namer.root(salt))

    def match(self, table: BlockTable, token_ids: Sequence[int]) -> PrefixMatch:
        """What is cached of a sequence that holds nothing. Its last token never matches: its logits are wanted."""
        self._namer.extend(table, token_ids, len(token_ids) // self._block_tokens)
        limit = (len(token_ids) - 1) // self._block_tokens
        first, blocks = self._longest(table.names, limit)
        return PrefixMatch(first, blocks, self._in_flight.last_of(table.names, first + len(blocks), limit))

    def is_in_flight(self, name: BlockName) -> bool:
        return name in self._in_flight

    def acquire(self, table: BlockTable, match: PrefixMatch, num_tokens: int, spare: int) -> tuple[int, ...] | None:
        """Take the matched blocks and new ones up to `num_tokens`, if `spare` blocks stay available.

        With a window, new ones only as far as it reaches: `slide` gives back those that `grow` takes. Returns the ids
        of all blocks of the table; the first `len(match.blocks)` need no computing. None: no room.
        """
        config = self.config
        end = min(config.blocks_for(num_tokens), match.first + config.blocks_at_once(num_tokens))
        num_new = end - match.end
        num_woken = sum(block.num_users == 0 for block in match.blocks)
        if self._pool.num_available - num_woken < num_new + spare:
            return None
        for block in match.blocks:
            self._pool.share(block)
        table.blocks = match.blocks + [self._take() for _ in range(num_new)]
        table.first, table.num_sealed = match.first, match.end
        self._held.add(table)
        self._in_flight.begin(table)
        self._count_query(table, num_tokens)
        return tuple(block.block_id for block in table.blocks)

    def grow(self, table: BlockTable) -> int | None:
        """One more block, or None when all are in use."""
        if not self._pool.num_available:
            return None
        block = self._take()
        table.blocks.append(block)
        return block.block_id

    def seal(self, table: BlockTable, token_ids: Sequence[int], num_computed: int) -> None:
        """Name the blocks that `num_computed` tokens fill: from now on others can use them."""
        num_full = num_computed // self._block_tokens
        self._namer.extend(table, token_ids, num_full)
        for index in range(table.num_sealed, num_full):
            block, name = table.blocks[index - table.first], table.names[index]
            block.name, block.parent = name, table.parent_of(index)
            self._index.add(name, block)
            self._in_flight.sealed(name)
        table.num_sealed = max(table.num_sealed, num_full)

    def slide(self, table: BlockTable, num_computed: int) -> int:
        """Give back sealed blocks that no row behind `num_computed` tokens sees; how many."""
        stride = self.config.slide_blocks
        first = self.config.first_seen_block(num_computed) // stride * stride
        count = min(first, table.num_sealed) - table.first
        if count <= 0:
            return 0
        self._leave(table.blocks[:count])
        del table.blocks[:count]
        table.first += count
        return count

    def release(self, table: BlockTable) -> None:
        """Give all blocks back, last to first, so that a chain is evicted from its end. The names stay in the table."""
        self._held.discard(table)
        self._in_flight.abandon(table)
        self._leave(reversed(table.blocks))
        table.blocks = []
        table.first = table.num_sealed = 0

    def _longest(self, names: Sequence[BlockName], limit: int) -> tuple[int, list[Block]]:
        config = self.config
        if config.window_tokens is None:
            return 0, self._index.longest_chain(names, limit)
        return self._index.longest_seen(names, limit, lambda end: config.first_seen_block(end * config.block_tokens))

    def _leave(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            block.num_users -= 1
            if block.num_users == 0:
                self._retire(block)

    def _take(self) -> Block:
        block = self._pool.take()
        if block.name is not None:
            self._index.remove(block.name)
            block.forget()
            self._num_evicted += 1
        return block

    def _retire(self, block: Block) -> None:
        """Keep an unused block under its name, unless it has none or another block serves it already."""
        if block.name is None:
            self._pool.put_free(block)
            return
        self._index.add(block.name, block)
        listed = self._index.get(block.name)
        if listed is block:
            self._pool.put_idle(block)
        else:
            block.forget()
            self._pool.put_free(block)
            if listed is not None:
                self._pool.touch(listed)  # younger than the blocks behind it, which went idle just now

    def _count_query(self, table: BlockTable, num_tokens: int) -> None:
        if table.num_hit_tokens is None:
            table.num_hit_tokens = table.num_sealed * self._block_tokens
            self._num_query_tokens += num_tokens
            self._num_hit_tokens += table.num_hit_tokens

    def check(self) -> None:
        """Assert every invariant. For tests: it visits all blocks."""
        audit(self.config, self._pool, self._index, self._in_flight, self._held)
