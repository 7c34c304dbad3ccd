"""What is forgotten is never found again, whoever holds or computes it at the moment."""

import pytest

from tailrace.kvcache.block import BlockTable
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.forget import Forget, Scope

BLOCK = 4
PROMPT = list(range(1, 14))  # three blocks and a token


def make_cache(num_blocks: int = 16) -> KvCache:
    return KvCache(KvCacheConfig(num_blocks, BLOCK, ("model",)))


def hold(cache: KvCache, token_ids: list[int], salt: str = "") -> BlockTable:
    table = cache.open(salt)
    assert cache.acquire(table, cache.match(table, token_ids), len(token_ids), 0) is not None
    cache.copied()
    return table


def compute(cache: KvCache, token_ids: list[int], salt: str = "") -> BlockTable:
    table = hold(cache, token_ids, salt)
    cache.seal(table, token_ids, len(token_ids))
    return table


def num_found(cache: KvCache, token_ids: list[int], salt: str = "") -> int:
    return cache.match(cache.open(salt), token_ids).end


def test_a_block_alone() -> None:
    cache = make_cache()
    table = compute(cache, PROMPT)
    cache.release(table)
    assert cache.forget(Forget(Scope.BLOCK, table.names[1])) == 1
    assert cache.pool_record.num_invalidated_total == 1
    assert num_found(cache, PROMPT) == 1
    cache.check()
    cache.release(compute(cache, PROMPT))  # the block behind it is still there, and is reached again
    assert cache.stats.num_cached == 3
    cache.check()


def test_a_prefix_with_all_that_continues_it() -> None:
    cache = make_cache()
    cache.release(compute(cache, PROMPT))
    other = [*PROMPT[:8], 50, 51, 52, 53, 54]
    table = compute(cache, other)
    cache.release(table)
    elsewhere = [60, *PROMPT]
    cache.release(compute(cache, elsewhere))
    assert cache.forget(Forget(Scope.PREFIX, table.names[1])) == 3
    assert [num_found(cache, prompt) for prompt in (PROMPT, other, elsewhere)] == [1, 1, 3]
    cache.check()


def test_a_prefix_whose_own_block_is_gone() -> None:
    cache = make_cache()
    table = compute(cache, PROMPT)
    cache.release(table)
    cache.forget(Forget(Scope.BLOCK, table.names[0]))
    assert cache.forget(Forget(Scope.PREFIX, table.names[0])) == 2
    assert cache.stats.num_cached == 0
    cache.check()


@pytest.mark.parametrize(("scope", "num_left"), [(Scope.TENANT, 3), (Scope.FINGERPRINT, 0)])
def test_a_tenant_and_a_model(scope: Scope, num_left: int) -> None:
    cache = make_cache()
    table = compute(cache, PROMPT, "a")
    cache.release(table)
    cache.release(compute(cache, PROMPT, "b"))
    owner = table.owner
    target = owner.tenant if scope is Scope.TENANT else owner.fingerprint
    assert cache.forget(Forget(scope, target)) == 6 - num_left
    assert (num_found(cache, PROMPT, "a"), num_found(cache, PROMPT, "b")) == (0, num_left)
    cache.check()


def test_who_holds_a_forgotten_block_goes_on_and_names_nothing_behind_it() -> None:
    cache = make_cache()
    table = hold(cache, PROMPT)
    cache.seal(table, PROMPT, 8)
    cache.forget(Forget(Scope.BLOCK, table.names[1]))
    cache.seal(table, PROMPT, 13)
    cache.check()
    assert num_found(cache, PROMPT) == 1
    cache.release(table)
    assert num_found(cache, PROMPT) == 1
    cache.check()


def test_who_computes_it_at_the_moment_does_not_bring_it_back() -> None:
    cache = make_cache()
    first, second = hold(cache, PROMPT), hold(cache, PROMPT)
    cache.seal(first, PROMPT, 13)
    cache.forget(Forget(Scope.PREFIX, first.names[0]))
    cache.seal(second, PROMPT, 13)
    for table in (first, second):
        cache.release(table)
    assert num_found(cache, PROMPT) == 0
    assert cache.stats.num_free == 16
    cache.check()


def test_nor_does_a_twin_that_was_sealed_before() -> None:
    cache = make_cache()
    first, second = hold(cache, PROMPT), hold(cache, PROMPT)
    for table in (first, second):
        cache.seal(table, PROMPT, 13)
    cache.forget(Forget(Scope.TENANT, first.owner.tenant))
    for table in (first, second):
        cache.release(table)
    assert num_found(cache, PROMPT) == 0
    cache.check()


def test_nor_does_who_copied_rows_of_it() -> None:
    cache = make_cache()
    first = compute(cache, [1, 2, 3, 4])
    second = [1, 2, 3, 9, 8, 8, 8, 8, 8]
    table = hold(cache, second)
    assert table.num_cached == 3
    cache.forget(Forget(Scope.BLOCK, first.names[0]))
    cache.seal(table, second, 9)
    assert num_found(cache, second) == 0
    cache.check()


def test_a_request_that_comes_later_names_its_blocks_again() -> None:
    cache = make_cache()
    table = compute(cache, PROMPT)
    cache.release(table)
    cache.forget(Forget(Scope.PREFIX, table.names[0]))
    assert cache.acquire(table, cache.match(table, PROMPT), len(PROMPT), 0) is not None
    cache.seal(table, PROMPT, 13)
    assert num_found(cache, PROMPT) == 3
    cache.check()


def test_several_at_once_count_each_block_once_and_sever_who_holds_any() -> None:
    cache = make_cache()
    table = compute(cache, PROMPT)
    cache.release(table)
    other = [*PROMPT[:8], 50, 51, 52, 53, 54]
    running = hold(cache, other)
    cache.seal(running, other, 8)
    forgets = [Forget(Scope.PREFIX, table.names[2]), *(Forget(Scope.BLOCK, name) for name in table.names)]
    assert cache.forget(*forgets) == 3
    cache.seal(running, other, 13)
    cache.release(running)
    assert [num_found(cache, prompt) for prompt in (PROMPT, other)] == [0, 0]
    assert cache.forget() == 0
    cache.check()


def twins(cache: KvCache) -> tuple[BlockTable, BlockTable]:
    """Two sequences that have computed the same three blocks at the same time; those of the first are found."""
    tables = cache.open(""), cache.open("")
    for table in tables:
        assert cache.acquire(table, cache.match(table, PROMPT[:3]), 3, 0) is not None
        assert cache.grow(table) is not None
        assert cache.grow(table) is not None
    for table in tables:
        cache.seal(table, PROMPT, 8)
    return tables


def drop_idle(cache: KvCache) -> None:
    """Have all idle blocks evicted."""
    table = cache.open("", "another")
    num_tokens = (cache.stats.num_free + cache.stats.num_cached) * BLOCK
    assert cache.acquire(table, cache.match(table, [99] * num_tokens), num_tokens, 0) is not None
    cache.release(table)


@pytest.mark.parametrize("scope", Scope)
def test_what_is_held_by_a_twin_alone(scope: Scope) -> None:
    cache = make_cache()
    first, second = twins(cache)
    cache.release(first)
    drop_idle(cache)
    owner, name = second.owner, second.names[0]
    targets = {Scope.TENANT: owner.tenant, Scope.FINGERPRINT: owner.fingerprint}
    cache.forget(Forget(scope, targets.get(scope, name)))
    cache.release(second)
    assert num_found(cache, PROMPT) == 0
    cache.check()


def test_a_prefix_that_goes_on_behind_twins() -> None:
    cache = make_cache()
    first, second = twins(cache)
    cache.release(first)
    drop_idle(cache)
    cache.seal(second, PROMPT, 12)
    cache.forget(Forget(Scope.PREFIX, second.names[0]))
    cache.release(second)
    cache.release(compute(cache, PROMPT[:9]))
    assert num_found(cache, PROMPT) == 2
    cache.check()
