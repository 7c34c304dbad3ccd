from tailrace.kvcache.pool import BlockPool


def test_low_ids_are_taken_first() -> None:
    pool = BlockPool(3)
    assert [pool.take().block_id for _ in range(3)] == [0, 1, 2]


def test_counts_add_up() -> None:
    pool = BlockPool(4)
    taken = [pool.take() for _ in range(3)]
    pool.put_idle(taken[0])
    pool.put_free(taken[1])
    assert (pool.num_used, pool.num_idle, pool.num_free, pool.num_available) == (1, 1, 2, 3)


def test_idle_blocks_are_taken_last_and_oldest_first() -> None:
    pool = BlockPool(3)
    first, second, third = (pool.take() for _ in range(3))
    pool.put_idle(second)
    pool.put_idle(first)
    pool.put_free(third)
    assert [pool.take() for _ in range(3)] == [third, second, first]


def test_a_touched_block_is_evicted_last() -> None:
    pool = BlockPool(2)
    first, second = pool.take(), pool.take()
    pool.put_idle(first)
    pool.put_idle(second)
    pool.touch(first)
    assert pool.take() is second


def test_touching_a_used_block_leaves_it_used() -> None:
    pool = BlockPool(1)
    block = pool.take()
    pool.touch(block)
    assert pool.num_used == 1


def test_sharing_an_idle_block_takes_it_out_of_reach() -> None:
    pool = BlockPool(1)
    block = pool.take()
    pool.put_idle(block)
    pool.share(block)
    pool.share(block)
    assert block.num_users == 2
    assert pool.num_available == 0
