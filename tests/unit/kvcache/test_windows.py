"""A sequence whose window has moved on gives its first blocks back, and is found again by what the window shows."""

from dataclasses import replace

import pytest

from tailrace.errors import SetupError
from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig, PrefixMatch

BLOCK = 4


def config(window_tokens: int | None, num_blocks: int = 8) -> KvCacheConfig:
    return KvCacheConfig(num_blocks, BLOCK, ("model",), window_tokens)


def compute(cache: KvCache, token_ids: list[int]) -> BlockTable:
    """Token by token, as a stream."""
    table = cache.open("")
    match = cache.match(table, token_ids)
    assert cache.acquire(table, match, len(token_ids), 0) is not None
    for num_computed in range(match.end * BLOCK, len(token_ids)):
        if num_computed == table.end * BLOCK:
            assert cache.grow(table) is not None
        cache.seal(table, token_ids, num_computed + 1)
        cache.slide(table, num_computed + 1)
        cache.check()
    return table


def match_of(cache: KvCache, token_ids: list[int]) -> PrefixMatch:
    return cache.match(cache.open(""), token_ids)


@pytest.mark.parametrize(
    ("window_tokens", "position", "expected"),
    [(None, 100, 0), (1, 0, 0), (1, 4, 1), (5, 7, 0), (5, 8, 1), (4, 6, 0), (4, 7, 1), (100, 99, 0), (100, 103, 1)],
)
def test_a_block_is_seen_while_its_last_position_is(window_tokens: int | None, position: int, expected: int) -> None:
    assert config(window_tokens).first_seen_block(position) == expected


@pytest.mark.parametrize("window_tokens", range(1, 14))
def test_a_sequence_needs_the_blocks_that_its_widest_view_touches(window_tokens: int) -> None:
    kv = config(window_tokens)
    widest = max(position // BLOCK - kv.first_seen_block(position) + 1 for position in range(100))
    assert kv.blocks_at_once(100) == widest


@pytest.mark.parametrize(("window_tokens", "stride"), [(63, 1), (64, 2), (100, 3)])
def test_a_long_window_moves_on_by_an_eighth_of_it(window_tokens: int, stride: int) -> None:
    cache = KvCache(config(window_tokens, num_blocks=200))
    table = compute(cache, list(range(600)))
    assert table.first == cache.config.first_seen_block(600) // stride * stride > 0


def test_no_sequence_holds_more_than_it_needs_at_once() -> None:
    kv = config(100, num_blocks=200)
    needed = kv.blocks_at_once(600)
    cache = KvCache(replace(kv, num_blocks=needed))
    compute(cache, list(range(600)))  # does not grow beyond it
    assert needed == 25 + 3


def test_a_sequence_shorter_than_the_window_needs_all_its_blocks() -> None:
    assert config(50).blocks_at_once(9) == config(None).blocks_at_once(9) == 3


def test_what_fits_depends_on_the_window_alone() -> None:
    assert config(9, num_blocks=3).can_hold(1_000)
    assert not config(10, num_blocks=3).can_hold(1_000)
    assert config(10, num_blocks=3).can_hold(12)
    assert not config(None, num_blocks=3).can_hold(13)


def test_a_row_that_does_not_see_itself_is_refused() -> None:
    with pytest.raises(SetupError, match="a window of 0 tokens"):
        config(0)


def test_admission_takes_no_more_than_the_window_reaches() -> None:
    cache = KvCache(config(5))
    table = cache.open("")
    assert cache.acquire(table, cache.match(table, list(range(1_000))), 1_000, 0) == (0, 1)


def test_blocks_out_of_sight_stay_in_the_cache_until_others_need_them() -> None:
    cache = KvCache(config(5))
    compute(cache, list(range(23)))
    stats = cache.stats
    assert (stats.num_used, stats.num_cached, stats.num_free) == (2, 4, 2)


def test_what_is_seen_is_not_given_back() -> None:
    cache = KvCache(config(5))
    table = cache.open("")
    token_ids = list(range(8))
    cache.acquire(table, cache.match(table, token_ids), 8, 0)
    cache.seal(table, token_ids, 7)
    assert cache.slide(table, 7) == 0
    cache.seal(table, token_ids, 8)
    assert cache.slide(table, 8) == 1
    assert cache.slide(table, 8) == 0
    assert (table.first, table.end, table.num_sealed) == (1, 2, 2)


def test_without_a_window_nothing_is_given_back() -> None:
    cache = KvCache(config(None))
    table = cache.open("")
    token_ids = list(range(32))
    cache.acquire(table, cache.match(table, token_ids), 32, 0)
    cache.seal(table, token_ids, 32)
    assert cache.slide(table, 32) == 0


def test_a_block_out_of_sight_is_still_held_by_who_sees_it() -> None:
    cache = KvCache(config(5))
    token_ids = list(range(9))
    ahead = cache.open("")
    cache.acquire(ahead, cache.match(ahead, token_ids), 9, 0)
    cache.grow(ahead)
    cache.seal(ahead, token_ids, 4)
    behind = cache.open("")
    cache.acquire(behind, cache.match(behind, token_ids[:6]), 6, 0)
    cache.seal(ahead, token_ids, 9)
    assert cache.slide(ahead, 9) == 1
    assert cache.stats.num_cached == 0
    cache.release(behind)
    assert cache.stats.num_cached == 1
    cache.check()


def test_a_prefix_without_its_beginning_is_found() -> None:
    cache = KvCache(config(5, num_blocks=6))
    token_ids = list(range(24))
    cache.release(compute(cache, token_ids))
    other = compute(cache, [50, 51, 52, 53, 54, 55, 56, 57])  # takes the place of the first two
    cache.release(other)

    match = match_of(cache, [*token_ids, 24])
    assert (match.first, match.end) == (5, 6)
    assert match_of(cache, token_ids[:9]).end == 0


def test_a_hit_holds_only_what_is_seen_of_it() -> None:
    cache = KvCache(config(5))
    token_ids = list(range(25))
    cache.release(compute(cache, token_ids))
    used_before = cache.stats.num_used
    table = cache.open("")
    cache.acquire(table, cache.match(table, token_ids), 25, 0)
    assert cache.stats.num_used - used_before == len(table.blocks) == 2
    assert (table.first, table.num_sealed, table.end) == (5, 6, 7)
    assert table.num_hit_tokens == 24
    cache.check()
