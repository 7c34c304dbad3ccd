import pytest

from tailrace.errors import EngineError
from tailrace.kvcache.block import Block, Node, Owner
from tailrace.kvcache.config import KvCacheConfig
from tailrace.kvcache.eviction import EvictionConfig, Standing
from tailrace.kvcache.lifecycle import BlockState
from tailrace.kvcache.pool import BlockPool

OWNER = Owner(b"fingerprint", b"tenant", b"root")


def pool_of(num_blocks: int, eviction: EvictionConfig | None = None) -> BlockPool:
    return BlockPool(KvCacheConfig(num_blocks, 1, (), eviction=eviction or EvictionConfig()))


def sealed(pool: BlockPool, name: bytes, parent: bytes | None = None) -> Block:
    block = pool.take()
    pool.seal(block)
    block.node = Node(name, OWNER, parent)
    return block


def put_behind(parent: Block, child: Block | None) -> None:
    """Let `child` continue `parent`, or nothing."""
    assert parent.node is not None
    parent.node.child = None if child is None else child.node


def evict(pool: BlockPool) -> Block | None:
    found = pool.victim()
    if found is None:
        return None
    found[0].node = None
    pool.put_free(found[0])
    return found[0]


def test_low_ids_are_taken_first() -> None:
    pool = pool_of(3)
    assert [pool.take().block_id for _ in range(3)] == [0, 1, 2]


def test_counts_add_up() -> None:
    pool = pool_of(4)
    pool.put_idle(sealed(pool, b"a"))
    second, _ = pool.take(), pool.take()
    pool.put_free(second)
    assert (pool.num_used, pool.num_idle, pool.num_free, pool.num_available) == (1, 1, 2, 3)


def test_of_blocks_seen_once_the_longest_idle_goes_first() -> None:
    pool = pool_of(3)
    first, second, third = (sealed(pool, name) for name in (b"a", b"b", b"c"))
    for second_s, block in enumerate((second, first, third)):
        pool.advance(float(second_s))
        pool.put_idle(block)
    assert [evict(pool) for _ in range(4)] == [second, first, third, None]


def test_a_block_goes_before_the_one_it_continues_whatever_their_uses() -> None:
    pool = pool_of(2)
    parent, child = sealed(pool, b"a"), sealed(pool, b"b", b"a")
    put_behind(parent, child)
    pool.put_idle(parent)
    pool.advance(10.0)
    pool.put_idle(child)
    assert evict(pool) is child
    put_behind(parent, None)
    pool.leaf_changed(parent)
    assert evict(pool) is parent


def test_a_block_that_gains_a_child_while_idle_is_spared() -> None:
    pool = pool_of(3)
    parent, other = sealed(pool, b"a"), sealed(pool, b"b")
    pool.put_idle(parent)
    pool.put_idle(other)
    put_behind(parent, sealed(pool, b"c", b"a"))
    pool.leaf_changed(parent)
    assert evict(pool) is other


def test_an_idle_chain_that_only_a_used_block_continues_goes_from_its_end() -> None:
    pool = pool_of(3)
    first, second, used = sealed(pool, b"a"), sealed(pool, b"b", b"a"), sealed(pool, b"c", b"b")
    put_behind(first, second)
    put_behind(second, used)
    pool.put_idle(first)
    pool.put_idle(second)
    assert evict(pool) is second
    put_behind(first, None)
    pool.leaf_changed(first)
    assert evict(pool) is first
    assert evict(pool) is None
    assert used.num_users == 1


def test_the_time_to_live_is_the_first_reason() -> None:
    pool = pool_of(2, EvictionConfig(ttl_s=100.0))
    block = sealed(pool, b"a")
    pool.put_idle(block)
    pool.advance(100.0)
    assert pool.victim() == (block, Standing.ONCE)
    pool.advance(101.0)
    assert pool.victim() == (block, Standing.EXPIRED)


def test_the_time_for_which_a_block_is_held_does_not_count() -> None:
    pool = pool_of(2, EvictionConfig(lapse_s=30.0, ttl_s=100.0))
    block = sealed(pool, b"a")
    pool.put_idle(block)
    pool.advance(20.0)
    pool.share(block)
    pool.advance(500.0)
    pool.put_idle(block)
    assert pool.victim() == (block, Standing.REGULAR)


def test_a_touched_block_is_evicted_last() -> None:
    pool = pool_of(2)
    first, second = sealed(pool, b"a"), sealed(pool, b"b")
    pool.put_idle(first)
    pool.put_idle(second)
    pool.touch(first)
    assert evict(pool) is second


def test_touching_a_used_block_leaves_it_used() -> None:
    pool = pool_of(1)
    block = pool.take()
    pool.touch(block)
    assert pool.num_used == 1


def test_sharing_an_idle_block_takes_it_out_of_reach() -> None:
    pool = pool_of(1)
    block = sealed(pool, b"a")
    pool.put_idle(block)
    pool.share(block)
    pool.share(block)
    assert block.num_users == 2
    assert block.state is BlockState.SEALED
    assert pool.num_available == 0
    assert pool.victim() is None


def test_a_block_is_not_freed_twice() -> None:
    pool = pool_of(1)
    block = pool.take()
    pool.put_free(block)
    with pytest.raises(EngineError, match="from free to free"):
        pool.put_free(block)
