import pytest

from tailrace.errors import SetupError
from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig

BLOCK = 4


def make_cache(num_blocks: int = 8) -> KvCache:
    return KvCache(KvCacheConfig(num_blocks, BLOCK, ("model", "f32")))


def start(cache: KvCache, token_ids: list[int], salt: str = "") -> tuple[BlockTable, int]:
    """Acquire blocks for all tokens; the table and how many blocks were found."""
    table = cache.open(salt)
    match = cache.match(table, token_ids)
    assert cache.acquire(table, match, len(token_ids), 0) is not None
    return table, len(match.blocks)


def compute(cache: KvCache, token_ids: list[int], salt: str = "") -> BlockTable:
    table, _ = start(cache, token_ids, salt)
    cache.seal(table, token_ids, len(token_ids))
    return table


def num_found(cache: KvCache, token_ids: list[int], salt: str = "") -> int:
    return len(cache.match(cache.open(salt), token_ids).blocks)


def ids(table: BlockTable) -> list[int]:
    return [block.block_id for block in table.blocks]


def test_a_running_sequence_shares_what_it_has_sealed() -> None:
    cache = make_cache()
    first = compute(cache, list(range(10)))
    second, found = start(cache, list(range(10)))
    assert found == 2
    assert ids(second)[:2] == ids(first)[:2]
    assert ids(second)[2] != ids(first)[2]
    cache.check()


def test_a_released_prefix_is_found_again() -> None:
    cache = make_cache()
    cache.release(compute(cache, list(range(10))))
    assert cache.stats.num_used == 0
    assert cache.stats.num_cached == 2
    assert num_found(cache, list(range(10))) == 2
    cache.check()


def test_blocks_are_not_found_before_they_are_sealed() -> None:
    cache = make_cache()
    table, _ = start(cache, list(range(10)))
    assert num_found(cache, list(range(10))) == 0
    cache.seal(table, list(range(10)), 7)
    assert num_found(cache, list(range(10))) == 1


def test_a_block_filled_by_decode_is_found_like_one_of_a_prompt() -> None:
    cache = make_cache()
    token_ids = list(range(6))
    table = compute(cache, token_ids)
    for token_id in (6, 7, 8):
        token_ids.append(token_id)
        cache.seal(table, token_ids, len(token_ids))
    cache.release(table)
    assert num_found(cache, list(range(12))) == 2


@pytest.mark.parametrize(("num_tokens", "expected"), [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2), (12, 2)])
def test_the_last_token_is_always_computed(num_tokens: int, expected: int) -> None:
    cache = make_cache()
    cache.release(compute(cache, list(range(12))))
    assert num_found(cache, list(range(num_tokens))) == expected


def test_other_salts_find_nothing() -> None:
    cache = make_cache()
    cache.release(compute(cache, list(range(10)), "one"))
    assert num_found(cache, list(range(10)), "two") == 0
    assert num_found(cache, list(range(10)), "one") == 2


def test_no_room_changes_nothing() -> None:
    cache = make_cache(num_blocks=4)
    cache.release(compute(cache, list(range(8))))
    compute(cache, [50, 51, 52, 53, 54])
    before = cache.stats
    table = cache.open("")
    match = cache.match(table, list(range(12)))
    assert len(match.blocks) == 2
    assert cache.acquire(table, match, 12, 0) is None
    assert cache.stats == before
    cache.check()


def test_idle_blocks_that_match_do_not_count_as_room_for_others() -> None:
    cache = make_cache(num_blocks=3)
    cache.release(compute(cache, list(range(8))))
    table = cache.open("")
    match = cache.match(table, list(range(12)))
    assert cache.acquire(table, match, 12, 1) is None
    assert cache.acquire(table, match, 12, 0) is not None


def test_spare_blocks_stay_available() -> None:
    cache = make_cache(num_blocks=3)
    table = cache.open("")
    match = cache.match(table, list(range(8)))
    assert cache.acquire(table, match, 8, 2) is None
    assert cache.acquire(table, match, 8, 1) == (0, 1)


def test_a_chain_is_evicted_from_its_end() -> None:
    cache = make_cache(num_blocks=4)
    cache.release(compute(cache, list(range(16))))
    found = []
    table, _ = start(cache, [50])
    while cache.grow(table) is not None:
        found.append(num_found(cache, list(range(17))))
    assert found == [2, 1, 0]
    assert cache.stats.num_evicted == 4


def test_the_prefix_unused_for_longest_is_evicted_first() -> None:
    cache = make_cache(num_blocks=4)
    cache.release(compute(cache, list(range(8))))
    cache.release(compute(cache, list(range(20, 28))))
    cache.release(start(cache, list(range(9)))[0])
    start(cache, [50, 51, 52, 53, 54])
    assert num_found(cache, list(range(9))) == 2
    assert num_found(cache, list(range(20, 29))) == 0


def test_growing_stops_when_all_blocks_are_in_use() -> None:
    cache = make_cache(num_blocks=2)
    table = compute(cache, list(range(4)))
    assert cache.grow(table) == 1
    assert cache.grow(table) is None
    cache.check()


def test_a_shared_block_lives_until_its_last_user_leaves() -> None:
    cache = make_cache()
    first = compute(cache, list(range(10)))
    second, _ = start(cache, list(range(10)))
    cache.release(first)
    cache.check()
    assert cache.stats.num_used == 3
    cache.release(second)
    cache.check()
    assert cache.stats.num_used == 0


def test_blocks_computed_twice_leave_one_copy_behind() -> None:
    cache = make_cache()
    first, _ = start(cache, list(range(10)))
    second, _ = start(cache, list(range(10)))
    cache.seal(first, list(range(10)), 10)
    cache.seal(second, list(range(10)), 10)
    cache.check()
    cache.release(first)
    cache.check()
    cache.release(second)
    cache.check()
    assert cache.stats.num_cached == 2


def test_a_copy_takes_over_when_the_first_block_is_gone() -> None:
    cache = make_cache(num_blocks=4)
    first, _ = start(cache, list(range(5)))
    second, _ = start(cache, list(range(5)))
    cache.seal(first, list(range(5)), 5)
    cache.seal(second, list(range(5)), 5)
    cache.release(first)
    other, _ = start(cache, [50, 51, 52, 53, 54])
    assert num_found(cache, list(range(5))) == 0
    cache.release(second)
    assert num_found(cache, list(range(5))) == 1
    cache.release(other)
    cache.check()


def test_a_running_prefix_is_awaited_up_to_where_the_prompts_part() -> None:
    cache = make_cache()
    leader, _ = start(cache, list(range(13)))
    follower = cache.open("")
    match = cache.match(follower, [*range(8), 50, 51, 52, 53, 54])
    assert match.blocks == []
    assert match.awaited == leader.names[1]
    cache.seal(leader, list(range(13)), 4)
    assert cache.is_in_flight(leader.names[1])
    cache.seal(leader, list(range(13)), 8)
    assert not cache.is_in_flight(leader.names[1])


def test_nothing_is_awaited_from_who_has_left() -> None:
    cache = make_cache()
    leader, _ = start(cache, list(range(13)))
    cache.release(leader)
    assert cache.match(cache.open(""), list(range(13))).awaited is None
    cache.check()


def test_nothing_is_awaited_across_salts() -> None:
    cache = make_cache()
    start(cache, list(range(13)), "one")
    assert cache.match(cache.open("two"), list(range(13))).awaited is None


def test_hits_are_counted_once_a_sequence() -> None:
    cache = make_cache()
    cache.release(compute(cache, list(range(10))))
    table, _ = start(cache, list(range(10)))
    assert table.num_hit_tokens == 8
    cache.release(table)
    cache.acquire(table, cache.match(table, list(range(10))), 10, 0)
    assert (cache.stats.num_query_tokens, cache.stats.num_hit_tokens) == (20, 8)


@pytest.mark.parametrize(("num_blocks", "block_tokens"), [(0, 4), (4, 0), (-1, 4)])
def test_a_cache_without_room_is_refused(num_blocks: int, block_tokens: int) -> None:
    with pytest.raises(SetupError, match="at least one block"):
        KvCacheConfig(num_blocks, block_tokens, ())
