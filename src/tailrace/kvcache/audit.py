"""The invariants of the cache, as assertions. They read every block; only tests call them."""

from collections import Counter
from collections.abc import Collection

from tailrace.kvcache.block import Block, BlockTable
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.lifecycle import BlockState
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import InFlight, PrefixIndex

__all__ = ["audit"]


def audit(
    config: KvCacheConfig,
    pool: BlockPool,
    index: PrefixIndex,
    in_flight: InFlight,
    held: Collection[BlockTable],
    *,
    pinned: Collection[Block],
    aside: Collection[Block] = (),
) -> None:
    """Raise AssertionError where a block is lost, leaked or shared wrongly, or a name leads to the wrong place."""
    _check_places(pool, held, [*pinned, *aside])
    _check_states(pool, held, pinned, aside)
    pool.chunks.check()
    _check_tables(held)
    _check_windows(config, held)
    _check_index(pool, index)
    _check_in_flight(in_flight, held)


def _check_places(pool: BlockPool, held: Collection[BlockTable], others: Collection[Block]) -> None:
    """Each block is free, idle or used, and has as many users as tables hold it, and a pin or who set it aside."""
    free = {block.block_id for block in pool.free_blocks()}
    idle = {block.block_id for block in pool.idle_blocks()}
    users = Counter(
        [*(block.block_id for table in held for block in table.blocks), *(block.block_id for block in others)]
    )
    assert not free & idle, f"blocks both free and idle: {free & idle}"
    assert len(free) == pool.num_free, "a block is free twice"
    for block in pool.blocks:
        assert block.num_users == users[block.block_id], f"{block} is held {users[block.block_id]} times"
        places = (block.block_id in free) + (block.block_id in idle) + (block.num_users > 0)
        assert places == 1, f"{block} is in {places} places"
        assert block.block_id not in free or block.name is None, f"{block} is free but named"
        assert block.block_id not in idle or block.name is not None, f"{block} is idle but nameless"


def _check_states(
    pool: BlockPool, held: Collection[BlockTable], pinned: Collection[Block], aside: Collection[Block]
) -> None:
    """The state of a block is what its place, its name and its table say."""
    expected = {
        block.block_id: BlockState.FREE if chunk.is_committed else BlockState.RELEASED
        for chunk in pool.chunks.chunks
        for block in chunk.free
    }
    expected |= {block.block_id: BlockState.IDLE for block in pool.idle_blocks()}
    expected |= {block.block_id: BlockState.SEALED for block in pinned}
    expected |= {block.block_id: BlockState.RESERVED for block in aside}
    for table in held:
        for index, block in enumerate(table.blocks, table.first):
            unsealed = BlockState.FILLING if index == table.num_sealed else BlockState.RESERVED
            expected[block.block_id] = BlockState.SEALED if index < table.num_sealed else unsealed
    for block in pool.blocks:
        assert block.state is expected[block.block_id], f"{block} should be {expected[block.block_id]}"
        is_evictable = block.state is BlockState.IDLE and (block.is_leaf or pool.is_windowed)
        assert pool.is_evictable(block) == is_evictable, f"{block} may be evicted without need, or never"
    assert Counter(block.state for block in pool.blocks) == Counter(pool.num_in_state), "blocks are counted wrongly"


def _check_tables(held: Collection[BlockTable]) -> None:
    """Sealed blocks of a table carry its names, if nothing was forgotten; the others none. None is there twice."""
    for table in held:
        assert len({block.block_id for block in table.blocks}) == len(table.blocks), "a table holds a block twice"
        for index, block in enumerate(table.blocks, table.first):
            name = table.names[index] if index < table.num_sealed else None
            is_severed = table.severed_at is not None and index >= table.severed_at
            assert block.name == name or (is_severed and block.name is None), (
                f"block {index} of a table: {block} should be named {name!r}"
            )
            assert block.num_users <= 1 or index < table.num_sealed, f"{block} is shared before it is sealed"


def _check_windows(config: KvCacheConfig, held: Collection[BlockTable]) -> None:
    """A table lacks no block that a row to come sees: the next one lies no further than the block behind the sealed."""
    for table in held:
        seen = config.first_seen_block((table.num_sealed + 1) * config.block_tokens - 1)
        assert table.first <= seen, f"a table begins with block {table.first}, but block {seen} is still seen"
        assert table.first <= table.num_sealed <= table.end, f"{table.num_sealed} blocks are sealed of {table.end}"


def _check_index(pool: BlockPool, index: PrefixIndex) -> None:
    """Names lead to blocks that bear them, and every idle block can be found."""
    listed = [block for block in pool.blocks if block.name is not None and index.get(block.name) is block]
    assert len(listed) == len(index), "a name is listed that no block bears"
    for block in pool.idle_blocks():
        assert block in listed, f"{block} is idle but cannot be found"


def _check_in_flight(in_flight: InFlight, held: Collection[BlockTable]) -> None:
    """Who is waited for holds blocks and has the name still to seal."""
    for name, owner in in_flight.owned():
        assert owner in held, f"{name!r} is awaited from a sequence that holds nothing"
        assert name in owner.names[owner.num_sealed :], f"{name!r} is awaited but already sealed"
