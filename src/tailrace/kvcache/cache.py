"""The KV cache of one engine: who holds which block, and which prefixes need no computing. Decides; moves no byte."""

from array import array
from collections.abc import Iterable, Sequence

from tailrace.kvcache.audit import audit
from tailrace.kvcache.block import Block, BlockName, BlockTable, Node
from tailrace.kvcache.chunks import ChooseChunk, MemoryChange, fullest_first
from tailrace.kvcache.compaction import Compaction
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.eviction import Standing
from tailrace.kvcache.explain import Removal
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.fragmentation import longest_free_run
from tailrace.kvcache.lifecycle import BlockState
from tailrace.kvcache.match import PrefixMatch, StartCopy
from tailrace.kvcache.named import NamedBlocks, first_covered, forgotten_blocks
from tailrace.kvcache.naming import BlockNamer
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import InFlight
from tailrace.kvcache.reserved import Reservations
from tailrace.kvcache.stats import KvCacheStats
from tailrace.kvcache.sweep import Sweeper
from tailrace.kvcache.transfer import BlockHead
from tailrace.records import KvFact, PoolRecord
from tailrace.types import Level, MissReason, PrefixReport

__all__ = ["KvCache", "KvCacheConfig", "KvCacheStats", "PrefixMatch", "StartCopy"]


class KvCache:
    """Blocks go to sequences through tables: `open`, then `match`, `acquire`, `grow`, `seal`, `slide`, `release`.

    Invariants (see `check`): a block is free, idle or used; idle blocks are named and findable; of two idle blocks of
    one chain the later is evicted first, unless there is a window: then a chain is of use without its beginning.
    """

    def __init__(self, config: KvCacheConfig, choose: ChooseChunk = fullest_first) -> None:
        self.config = config
        self._block_tokens = config.block_tokens
        self._namer = BlockNamer(config.block_tokens, config.root_parts)
        self._pool = BlockPool(config, choose)
        self._sweeper = Sweeper(config.sweep, self._pool)
        self._compaction = Compaction(self._pool, config.compaction)
        self._reserved = Reservations(self._pool)
        self._named = NamedBlocks(self._pool, self._namer.owner("").tenant)
        self._index = self._named.index
        self._in_flight = InFlight()
        self._held: set[BlockTable] = set()
        self._now_s = 0.0
        self._copies: list[StartCopy] = []
        self._copied: list[Block] = []  # sources of copies, held until the step that copies them is over
        self._pinned: dict[int, Block] = {}
        self._arriving: set[int] = set()  # ids of blocks that are being fetched
        self._longest_free_chunks = len(self._pool.chunks.chunks)  # at the last sweep
        self._num_query_tokens = self._num_hit_tokens = 0
        self._num_removed = dict.fromkeys(MissReason, 0)

    @property
    def stats(self) -> KvCacheStats:
        pool = self._pool
        return KvCacheStats(
            num_used=pool.num_used - self._reserved.num_blocks,
            num_cached=pool.num_idle,
            num_free=pool.num_free,
            num_aside=self._reserved.num_blocks,
            num_total=self.config.num_blocks,
            num_query_tokens=self._num_query_tokens,
            num_hit_tokens=self._num_hit_tokens,
            num_evicted=self._num_removed[MissReason.EVICTED],
        )

    @property
    def free_share(self) -> float:
        """The share of all blocks that no sequence holds."""
        return self._num_available / self.config.num_blocks

    @property
    def pool_record(self) -> PoolRecord:
        """The pool in more detail."""
        states, removed = self._pool.num_in_state, self._num_removed
        return PoolRecord(
            num_released=states[BlockState.RELEASED],
            num_free=states[BlockState.FREE],
            num_reserved=states[BlockState.RESERVED],
            num_filling=states[BlockState.FILLING],
            num_sealed=states[BlockState.SEALED],
            num_idle=states[BlockState.IDLE],
            num_evicted_total=removed[MissReason.EVICTED],
            num_expired_total=removed[MissReason.EXPIRED],
            num_swept_total=removed[MissReason.RELEASED],
            num_invalidated_total=removed[MissReason.INVALIDATED],
            num_committed_chunks=self._pool.chunks.num_committed_chunks,
            num_partial_chunks=self._pool.chunks.num_partial,
            chunk_fragmentation=self._pool.chunks.lost_share,
            longest_free_chunks=self._longest_free_chunks,
            num_moved_total=self._compaction.num_moved,
        )

    def advance(self, now_s: float) -> None:
        """Tell the time, by which blocks are used and grow old."""
        self._now_s = now_s
        self._pool.advance(now_s)

    def sweep(self) -> None:
        """Let idle blocks go that have been idle for long, or for a moment while few blocks are free; see `Sweeper`."""
        if not self._sweeper.is_due:
            return
        for block, reason in self._sweeper.victims(self._reserved.num_blocks):
            self._remove(block, reason, None)
        self._pool.chunks.release_empty(self._pool.now_s - self.config.sweep.chunk_idle_s)
        self._longest_free_chunks = longest_free_run(self._pool.chunks.is_touched)

    @property
    def is_compacting(self) -> bool:
        """Whether the last call of `compact` moved something, and the next may."""
        return self._compaction.is_active

    def compact(self, *, is_quiet: bool) -> list[tuple[int, int]]:
        """Move blocks together, if too much of the memory in use is lost between them.

        Of each move the source must be copied to the target before the next step computes. What is read or written from
        outside stays where it is. `is_quiet`: the step computes no prompt.
        """
        return self._compaction.step(is_quiet=is_quiet, pinned=lambda: self._pinned.keys() | self._arriving)

    @property
    def sweep_due_s(self) -> float | None:
        """When `sweep` will next have something to do, if nothing else happens; None: never."""
        return self._sweeper.due_s(self._reserved.num_blocks)

    def take_memory_change(self) -> MemoryChange:
        """Which blocks need memory before the next step, and which give theirs back."""
        return self._pool.chunks.take_change()

    def open(self, salt: str, request_id: str | None = None, group: int = 0) -> BlockTable:
        """An empty table; it holds nothing until `acquire`. Its blocks lie with those of its group."""
        return BlockTable(self._namer.owner(salt), request_id=request_id, group=group)

    def match(self, table: BlockTable, token_ids: Sequence[int]) -> PrefixMatch:
        """What is cached of a sequence that holds nothing. Its last token never matches: its logits are wanted."""
        self._namer.extend(table, token_ids, len(token_ids) // self._block_tokens)
        limit = (len(token_ids) - 1) // self._block_tokens
        first, blocks = self._longest(table.names, limit)
        end = first + len(blocks)
        awaited = self._in_flight.last_of(table.names, end, limit)
        start, num_tokens = self._index.longest_start(table.parent_of(end), self._rest_of_block(token_ids, end))
        return PrefixMatch(first, blocks, awaited, start, num_tokens)

    def content_behind(self, match: PrefixMatch, token_ids: Sequence[int]) -> bytes:
        """What stands for all tokens up to the end of the first block that did not match, which must be a whole one."""
        known, size = match.end if match.blocks else 0, self._block_tokens
        return self._namer.content(match.content, token_ids[known * size : (match.end + 1) * size])

    def report(self, table: BlockTable, match: PrefixMatch, token_ids: Sequence[int]) -> PrefixReport:
        """What of a prompt needs no computing after `acquire`, and why it is not more."""
        num_tokens = len(token_ids)
        would_be = match.end * self._block_tokens + match.num_start_tokens
        num_cached = min(table.num_cached if table.blocks else would_be, num_tokens)
        found = ((Level.ENGINE, num_cached),) if num_cached else ()
        if num_cached >= num_tokens - 1:
            return PrefixReport(found, None)
        if match.end >= (num_tokens - 1) // self._block_tokens:
            return PrefixReport(found, MissReason.SHORTER_THAN_BLOCK)
        content = self.content_behind(match, token_ids)
        reason, at_s, by = self._named.why_missing(table.names[match.end], content, table.owner)
        return PrefixReport(found, reason, None if at_s is None else self._now_s - at_s, by)

    def watch(self) -> None:
        """Keep facts of blocks that are stored and removed, for `drain_facts`."""
        self._named.watch()

    def drain_facts(self) -> tuple[KvFact, ...]:
        """What became of names since the last call; nothing unless somebody watches."""
        return self._named.drain_facts()

    def is_in_flight(self, name: BlockName) -> bool:
        return name in self._in_flight

    def acquire(self, table: BlockTable, match: PrefixMatch, num_tokens: int, spare: int) -> tuple[int, ...] | None:
        """Take the matched blocks and new ones up to `num_tokens`, if `spare` blocks stay available.

        With a window, new ones only as far as it reaches: `slide` gives back those that `grow` takes. Returns the ids
        of all blocks of the table; `table.num_cached` tokens need no computing. None: no room.
        """
        if not self._hold(table, match, self._num_new(match, num_tokens), spare):
            return None
        self._count_query(table, num_tokens)
        return tuple(block.block_id for block in table.blocks)

    def num_lacking(self, match: PrefixMatch, num_tokens: int, spare: int) -> int:
        """Blocks that would have to become available for `acquire` to find room; 0: it does now."""
        return max(match.num_idle + self._num_new(match, num_tokens) + spare - self._num_available, 0)

    @property
    def num_arriving(self) -> int:
        """Blocks reserved for what is being fetched."""
        return len(self._arriving)

    def reserve(self, table: BlockTable, match: PrefixMatch, num_blocks: int, spare: int) -> BlockTable | None:
        """Make room for the next blocks of a sequence, which are to be fetched from below; nobody is preempted for it.

        Until `land`, the returned table holds them and the matched ones before them, and their names are in flight.
        None: no room.
        """
        arriving = BlockTable(table.owner, table.names[: match.end + num_blocks], group=table.group)
        if not self._hold(arriving, match.whole(), num_blocks, spare):
            return None
        self._arriving.update(_unsealed(arriving))
        return arriving

    def disclaim(self, arriving: BlockTable) -> None:
        """Let whoever wants what arrives compute it meanwhile, instead of waiting for it."""
        self._in_flight.abandon(arriving)

    def land(self, arriving: BlockTable, token_ids: Sequence[int], num_arrived: int) -> list[Block]:
        """The first so many of the reserved blocks are here, for all to use. Returns those whose names were new.

        All of them are held until `release`, with which the rest is free again.
        """
        self._arriving.difference_update(_unsealed(arriving))
        return self.seal(arriving, token_ids, (arriving.num_sealed + num_arrived) * self._block_tokens)

    def pin(self, block: Block) -> None:
        """Let a sealed block stay as it is until `unpin`."""
        block.num_users += 1  # as it is: to be copied is no use that keeps it here for longer
        self._pinned[block.block_id] = block

    def unpin(self, block_ids: Sequence[int]) -> None:
        self._leave(reversed([self._pinned.pop(block_id) for block_id in block_ids]))

    def set_aside(self, table: BlockTable, num_blocks: int) -> None:
        """Reserve blocks for what a sequence is expected to become, as far as nobody else has a use for them."""
        self._reserved.reserve(table, num_blocks)

    def grow(self, table: BlockTable) -> int | None:
        """One more block, or None when all are in use."""
        if not self._num_available:
            return None
        block = self._reserved.take(table) or self._take(table)
        table.blocks.append(block)
        self._begin_filling(table)
        return block.block_id

    def seal(self, table: BlockTable, token_ids: Sequence[int], num_computed: int) -> list[Block]:
        """Name the blocks that `num_computed` tokens fill: from now on others can use them.

        Returns those whose names were new.
        """
        size = self._block_tokens
        num_full = num_computed // size
        self._namer.extend(table, token_ids, num_full)
        sealed = []
        for index in range(table.num_sealed, num_full):
            block = table.blocks[index - table.first]
            self._pool.seal(block)
            if table.severed_at is None or index < table.severed_at:
                tokens = array("I", token_ids[index * size : (index + 1) * size])
                if self._name(block, table, index, tokens):
                    sealed.append(block)
        table.num_sealed = max(table.num_sealed, num_full)
        self._begin_filling(table)
        return sealed

    def head(self, block: Block) -> BlockHead:
        """What levels below must know of a sealed block."""
        node = block.node
        assert node is not None, "a block without a name cannot be kept anywhere"
        assert node.front is not None
        return BlockHead(node.name, node.front, node.owner.tenant, node.owner.fingerprint, node.content)

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
        self._reserved.give_up(table)
        self._leave(reversed(table.blocks))
        table.clear()

    def take_copies(self) -> tuple[StartCopy, ...]:
        """What the next step has to copy. The sources are held until `copied`."""
        copies, self._copies = tuple(self._copies), []
        return copies

    def copied(self) -> None:
        """The step that was to make the copies is over."""
        sources, self._copied = self._copied, []
        self._leave(sources)

    def forget(self, *forgets: Forget) -> int:
        """Let nobody find what these cover, from now on; how many blocks.

        Sequences that hold such blocks, or compute them at the moment, go on, but what they seal from there on gets no
        name: it may come from what was forgotten.
        """
        gone = dict.fromkeys(block for forget in forgets for block in self._named.covered(forget))
        names = {block.name for block in gone}  # before they lose them
        targets = {forget.target for forget in forgets}
        behind = {forget.target for forget in forgets if forget.scope is not Scope.BLOCK}
        for table in self._held:
            if self._sever(table, targets, names):
                gone |= dict.fromkeys(forgotten_blocks(table, targets, behind))
        for block in gone:
            self._named.remove(block, Removal(MissReason.INVALIDATED, self._now_s))
            if block.num_users == 0:
                self._pool.put_free(block)
        self._num_removed[MissReason.INVALIDATED] += len(gone)
        return len(gone)

    def _hold(self, table: BlockTable, match: PrefixMatch, num_new: int, spare: int) -> bool:
        """Give the matched blocks and new ones to an empty table, if `spare` blocks stay available."""
        num_left = self._num_available - match.num_idle - num_new - spare
        if num_left < 0:
            return False
        for block in match.blocks:
            self._pool.share(block)
        source = match.start
        if source is not None and (num_left or source.num_users):  # else the room it takes is wanted
            self._pool.share(source)
        else:
            source = None
        table.blocks = match.blocks + [self._take(table) for _ in range(num_new)]
        table.first, table.num_sealed, table.content = match.first, match.end, match.content
        table.num_cached = match.end * self._block_tokens
        if source is not None:
            self._copy_start(table, source, match.num_start_tokens)
        self._held.add(table)
        self._begin_filling(table)
        self._in_flight.begin(table)
        return True

    def _num_new(self, match: PrefixMatch, num_tokens: int) -> int:
        end = min(self.config.blocks_for(num_tokens), match.first + self.config.blocks_at_once(num_tokens))
        return end - match.end

    def _copy_start(self, table: BlockTable, source: Block, num_tokens: int) -> None:
        """Let the block behind those that matched begin with the rows of another one."""
        target = table.blocks[table.num_sealed - table.first]
        self._copies.append(StartCopy(source.block_id, target.block_id, num_tokens))
        self._copied.append(source)
        table.num_cached += num_tokens
        table.start = source.name

    def _longest(self, names: Sequence[BlockName], limit: int) -> tuple[int, list[Block]]:
        config = self.config
        if config.window_tokens is None:
            return 0, self._index.longest_chain(names, limit)
        return self._index.longest_seen(names, limit, lambda end: config.first_seen_block(end * config.block_tokens))

    def _begin_filling(self, table: BlockTable) -> None:
        """Say which block the next rows of a sequence go to, if it has it already."""
        if table.num_sealed < table.end:
            block = table.blocks[table.num_sealed - table.first]
            if block.state is BlockState.RESERVED:
                self._pool.fill(block)

    def _leave(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            block.num_users -= 1
            if block.num_users == 0:
                self._retire(block)

    @property
    def _num_available(self) -> int:
        """Blocks that `_take` can hand out."""
        return self._pool.num_available + self._reserved.num_blocks

    def _take(self, table: BlockTable) -> Block:
        """A free block; when there is none, one that was reserved for others, or the one that is evicted for it."""
        pool = self._pool
        if not pool.num_free_with_memory and not self._reserved.take_back() and not pool.num_free:
            self._evict_for(table)
        return pool.take(table.group)

    def _evict_for(self, table: BlockTable) -> None:
        if (found := self._pool.victim()) is not None:
            block, standing = found
            reason = MissReason.EXPIRED if standing is Standing.EXPIRED else MissReason.EVICTED
            self._remove(block, reason, table.request_id)

    def _remove(self, block: Block, reason: MissReason, by: str | None) -> None:
        """Let nobody find an idle block any more, for `reason`, and make it free."""
        self._named.remove(block, Removal(reason, self._now_s, by))
        self._pool.put_free(block)
        self._num_removed[reason] += 1

    def _retire(self, block: Block) -> None:
        """Keep an unused block under its name, unless it has none or another block serves it already."""
        if block.name is None:
            self._pool.put_free(block)
            return
        self._named.add(block)
        listed = self._index.get(block.name)
        if listed is block:
            self._pool.put_idle(block)
        else:
            block.node = None
            self._pool.put_free(block)
            if listed is not None:
                self._pool.touch(listed)  # what continues it went idle just now

    def _name(self, block: Block, table: BlockTable, index: int, tokens: "array[int]") -> bool:
        """Seal a block; whether it is found under its name, and not a twin."""
        name = table.names[index]
        table.content = self._namer.content(table.content, tokens)
        block.node = Node(name, table.owner, table.parent_of(index), tokens, table.content)
        self._in_flight.sealed(name)
        return self._named.add(block)

    def _sever(self, table: BlockTable, targets: set[bytes], names: set[BlockName | None]) -> bool:
        """Let a sequence seal nothing from where it depends on what is forgotten; False if it does not."""
        first = first_covered(table, targets, names, self._block_tokens)
        if first is None:
            return False
        self._in_flight.abandon(table)
        table.severed_at = first if table.severed_at is None else min(first, table.severed_at)
        return True

    def _rest_of_block(self, token_ids: Sequence[int], index: int) -> Sequence[int]:
        """Tokens of block `index`, but for the last token of all."""
        start = index * self._block_tokens
        return token_ids[start : min(start + self._block_tokens, len(token_ids) - 1)]

    def _count_query(self, table: BlockTable, num_tokens: int) -> None:
        if table.num_hit_tokens is None:
            table.num_hit_tokens = table.num_cached
            self._num_query_tokens += num_tokens
            self._num_hit_tokens += table.num_hit_tokens

    def check(self) -> None:
        """Assert every invariant. For tests: it visits all blocks."""
        pinned, aside = [*self._pinned.values(), *self._copied], self._reserved.blocks()
        audit(self.config, self._pool, self._index, self._in_flight, self._held, pinned=pinned, aside=aside)
        self._index.check()


def _unsealed(table: BlockTable) -> list[int]:
    return [block.block_id for block in table.blocks[table.num_sealed - table.first :]]
