"""A prompt that turns off within a block shares the rows up to there."""

from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig, StartCopy
from tailrace.scheduler.scheduler import SchedulerConfig
from tests.support.simulation import SimulatedEngine, make_request

BLOCK = 4


def make_cache(num_blocks: int = 8) -> KvCache:
    return KvCache(KvCacheConfig(num_blocks, BLOCK, ("model",)))


def hold(cache: KvCache, token_ids: list[int], salt: str = "") -> BlockTable:
    table = cache.open(salt)
    assert cache.acquire(table, cache.match(table, token_ids), len(token_ids), 0) is not None
    return table


def keep(cache: KvCache, token_ids: list[int], salt: str = "") -> list[int]:
    """Compute a sequence and leave it in the cache; the ids of its blocks."""
    table = hold(cache, token_ids, salt)
    cache.seal(table, token_ids, len(token_ids))
    block_ids = [block.block_id for block in table.blocks]
    cache.release(table)
    return block_ids


def test_the_rows_before_the_turn_are_copied() -> None:
    cache = make_cache()
    kept = keep(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    table = hold(cache, [1, 2, 3, 4, 5, 6, 9, 9, 9])
    assert table.num_cached == 6
    assert cache.take_copies() == (StartCopy(kept[1], table.blocks[1].block_id, 2),)
    assert cache.take_copies() == ()
    cache.check()
    cache.copied()
    cache.check()


def test_the_last_token_is_computed_even_if_its_row_could_be_copied() -> None:
    cache = make_cache()
    keep(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    assert hold(cache, [1, 2, 3, 4, 5, 6, 7, 8]).num_cached == 7
    assert hold(cache, [1, 2, 3, 4]).num_cached == 3
    assert hold(cache, [1]).num_cached == 0


def test_of_several_blocks_the_one_that_shares_most_is_copied() -> None:
    cache = make_cache(16)
    for last in ([5, 5, 5, 5], [6, 7, 8, 5], [6, 7, 5, 5]):
        keep(cache, [1, 2, 3, 4, *last])
    assert hold(cache, [1, 2, 3, 4, 6, 7, 8, 9, 9]).num_cached == 7


def test_tenants_share_no_rows() -> None:
    cache = make_cache()
    keep(cache, [1, 2, 3, 4], salt="a")
    assert hold(cache, [1, 2, 3, 9], salt="b").num_cached == 0


def test_rows_at_another_place_are_not_shared() -> None:
    cache = make_cache()
    keep(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    assert hold(cache, [5, 6, 7, 9]).num_cached == 0


def test_a_source_stays_until_its_rows_are_copied() -> None:
    """The whole pool is wanted by then."""
    cache = make_cache(3)
    kept = keep(cache, [1, 2, 3, 4])
    table = hold(cache, [1, 2, 9])
    assert table.num_cached == 2
    assert cache.grow(table) is not None
    assert cache.grow(table) is None
    assert cache.take_copies()[0].source == kept[0]
    cache.copied()
    assert cache.grow(table) is not None


def test_where_a_source_is_the_last_room_there_is_it_makes_room() -> None:
    cache = make_cache(1)
    keep(cache, [1, 2, 3, 4])
    table = hold(cache, [1, 2, 9])
    assert (table.num_cached, cache.take_copies()) == (0, ())


def test_the_engine_computes_only_what_is_behind_the_turn() -> None:
    config = SchedulerConfig(budget_tokens=64, max_running=4, max_model_tokens=200, eos_ids=())
    engine = SimulatedEngine(config, KvCacheConfig(32, 8, ("model",)))
    engine.add(make_request("first", range(1, 30), 1))
    engine.run_to_end()
    num_before = engine.runner.num_computed_tokens
    engine.add(make_request("second", [*range(1, 22), 99, 98], 1))
    engine.run_to_end()
    assert engine.events["second"][0].num_cached_tokens == 21
    assert engine.runner.num_computed_tokens - num_before == 2
    assert engine.runner.num_copied_tokens == 5
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()
