"""Blocks reserved for what is fetched from below, and blocks pinned while they are saved there."""

from tailrace.kvcache.block import Block, BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig

PROMPT = list(range(17))  # four blocks and a token


def make_cache(num_blocks: int = 8) -> KvCache:
    return KvCache(KvCacheConfig(num_blocks, 4, ("model",)))


def compute(cache: KvCache, token_ids: list[int]) -> BlockTable:
    """A sequence that is computed to its end and still holds its blocks."""
    table = cache.open("")
    assert cache.acquire(table, cache.match(table, token_ids), len(token_ids), 0) is not None
    cache.seal(table, token_ids, len(token_ids))
    return table


def reserve(cache: KvCache, num_blocks: int, spare: int = 0) -> BlockTable | None:
    table = cache.open("")
    return cache.reserve(table, cache.match(table, PROMPT), num_blocks, spare)


def land(cache: KvCache, arriving: BlockTable, token_ids: list[int], num_arrived: int) -> None:
    cache.land(arriving, token_ids, num_arrived)
    cache.check()
    cache.release(arriving)


def test_what_arrives_is_found_like_what_was_computed() -> None:
    cache = make_cache()
    arriving = reserve(cache, 4)
    assert arriving is not None
    assert cache.num_arriving == cache.stats.num_used == 4
    cache.check()

    land(cache, arriving, PROMPT, 4)

    cache.check()
    assert [block.block_id for block in arriving.blocks] == []
    assert (cache.num_arriving, cache.stats.num_used, cache.stats.num_cached) == (0, 0, 4)
    assert cache.match(cache.open(""), PROMPT).end == 4


def test_what_did_not_arrive_is_free() -> None:
    cache = make_cache()
    arriving = reserve(cache, 4)
    assert arriving is not None
    land(cache, arriving, PROMPT, 1)
    cache.check()
    assert cache.match(cache.open(""), PROMPT).end == 1
    assert cache.stats.num_free == 7


def test_names_are_in_flight_until_they_have_landed() -> None:
    cache = make_cache()
    arriving = reserve(cache, 3)
    assert arriving is not None
    match = cache.match(cache.open(""), PROMPT)
    assert match.awaited == arriving.names[2]
    land(cache, arriving, PROMPT, 0)
    assert cache.match(cache.open(""), PROMPT).awaited is None
    cache.check()


def test_the_matched_beginning_stays_while_the_rest_is_fetched() -> None:
    cache = make_cache(num_blocks=4)
    cache.release(compute(cache, PROMPT[:8]))
    arriving = reserve(cache, 2)
    assert arriving is not None
    other = cache.open("")
    assert cache.acquire(other, cache.match(other, [99]), 1, 0) is None
    cache.check()
    land(cache, arriving, PROMPT, 2)
    cache.check()
    assert cache.match(cache.open(""), PROMPT).end == 4


def test_a_fetch_takes_no_room_that_is_to_be_spared() -> None:
    cache = make_cache(num_blocks=5)
    assert reserve(cache, 4, spare=2) is None
    assert reserve(cache, 4, spare=1) is not None


def test_what_was_computed_meanwhile_stays_and_its_twin_goes() -> None:
    cache = make_cache()
    arriving = reserve(cache, 2)
    assert arriving is not None
    other = compute(cache, PROMPT[:9])
    land(cache, arriving, PROMPT, 2)
    cache.check()
    assert cache.match(cache.open(""), PROMPT).blocks == other.blocks[:2]


def sealed_blocks(cache: KvCache, token_ids: list[int]) -> tuple[BlockTable, list[Block]]:
    table = cache.open("")
    cache.acquire(table, cache.match(table, token_ids), len(token_ids), 0)
    return table, cache.seal(table, token_ids, len(token_ids))


def test_only_new_names_need_saving() -> None:
    cache = make_cache()
    first, sealed = sealed_blocks(cache, PROMPT[:9])
    assert sealed == first.blocks[:2]
    _, again = sealed_blocks(cache, PROMPT[:13])
    assert len(again) == 1


def test_heads_chain_up_to_the_root() -> None:
    cache = make_cache()
    table, sealed = sealed_blocks(cache, PROMPT[:9])
    heads = [cache.head(block) for block in sealed]
    assert [head.name for head in heads] == table.names[:2]
    assert [head.parent for head in heads] == [table.owner.root, table.names[0]]
    assert {len(part) for head in heads for part in (head.tenant, head.fingerprint)} == {16}


def test_a_pinned_block_is_not_evicted() -> None:
    cache = make_cache(num_blocks=2)
    table, sealed = sealed_blocks(cache, PROMPT[:8])
    for block in sealed:
        cache.pin(block)
    cache.release(table)
    cache.check()
    other = cache.open("")
    assert cache.acquire(other, cache.match(other, [99]), 1, 0) is None

    cache.unpin([sealed[0].block_id])
    cache.check()
    cache.unpin([sealed[1].block_id])
    cache.check()
    assert cache.stats.num_cached == 2
    assert cache.acquire(other, cache.match(other, [99]), 1, 0) is not None


def test_a_pinned_block_can_still_be_used() -> None:
    cache = make_cache()
    table, sealed = sealed_blocks(cache, PROMPT[:9])
    for block in sealed:
        cache.pin(block)
    cache.release(table)
    again = cache.open("")
    match = cache.match(again, PROMPT)
    assert match.blocks == sealed
    assert cache.acquire(again, match, len(PROMPT), 0) is not None
    cache.check()
    cache.unpin([block.block_id for block in sealed])
    cache.check()
    cache.release(again)
    cache.check()
    assert cache.stats.num_used == 0
