"""The invariants of the cache, as assertions. They read every block; only tests call them."""

from collections import Counter
from collections.abc import Collection

from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import InFlight, PrefixIndex

__all__ = ["audit"]


def audit(
    config: KvCacheConfig, pool: BlockPool, index: PrefixIndex, in_flight: InFlight, held: Collection[BlockTable]
) -> None:
    """Raise AssertionError where a block is lost, leaked or shared wrongly, or a name leads to the wrong place."""
    _check_places(pool, held)
    _check_tables(held)
    _check_windows(config, held)
    _check_index(pool, index)
    _check_in_flight(in_flight, held)
    if config.window_tokens is None:
        _check_eviction_order(pool, index)


def _check_places(pool: BlockPool, held: Collection[BlockTable]) -> None:
    """Each block is free, idle or used, and has as many users as tables hold it."""
    free = {block.block_id for block in pool.free_blocks()}
    idle = {block.block_id for block in pool.idle_blocks()}
    users = Counter(block.block_id for table in held for block in table.blocks)
    assert not free & idle, f"blocks both free and idle: {free & idle}"
    assert len(free) == pool.num_free, "a block is free twice"
    for block in pool.blocks:
        assert block.num_users == users[block.block_id], f"{block} is held by {users[block.block_id]} tables"
        places = (block.block_id in free) + (block.block_id in idle) + (block.num_users > 0)
        assert places == 1, f"{block} is in {places} places"
        assert block.num_users <= 1 or block.name is not None, f"{block} is shared before it is sealed"
        assert block.block_id not in free or block.name is None, f"{block} is free but named"
        assert block.block_id not in idle or block.name is not None, f"{block} is idle but nameless"


def _check_tables(held: Collection[BlockTable]) -> None:
    """Sealed blocks of a table carry its names; the others none. No table holds a block twice."""
    for table in held:
        assert len({block.block_id for block in table.blocks}) == len(table.blocks), "a table holds a block twice"
        for index, block in enumerate(table.blocks, table.first):
            name = table.names[index] if index < table.num_sealed else None
            assert block.name == name, f"block {index} of a table: {block} should be named {name!r}"


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


def _check_eviction_order(pool: BlockPool, index: PrefixIndex) -> None:
    """An idle block is older than the idle block before it in its chain."""
    age = {block.block_id: position for position, block in enumerate(pool.idle_blocks())}
    for block in pool.idle_blocks():
        parent = index.get(block.parent) if block.parent is not None else None
        if parent is not None and parent.block_id in age:
            assert age[block.block_id] < age[parent.block_id], f"{parent} would be evicted before {block}"
