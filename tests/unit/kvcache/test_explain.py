"""Why the first block that had to be computed was not there."""

from tailrace.kvcache.block import Node, Owner
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.explain import MissLedger, Removal
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.match import PrefixMatch
from tailrace.records import BlockRemoved, BlockStored
from tailrace.types import Level, MissReason, PrefixReport

BLOCK = 4
PROMPT = list(range(1, 14))


def make_cache(num_blocks: int = 8) -> KvCache:
    return KvCache(KvCacheConfig(num_blocks, BLOCK, ("model",)))


def run(cache: KvCache, token_ids: list[int], salt: str = "", request_id: str | None = None) -> PrefixReport:
    """Compute a prompt and leave it in the cache; what its request learns."""
    table = cache.open(salt, request_id)
    match = cache.match(table, token_ids)
    assert cache.acquire(table, match, len(token_ids), 0) is not None
    report = cache.report(table, match, token_ids)
    cache.copied()
    cache.seal(table, token_ids, len(token_ids))
    cache.release(table)
    return report


def ask(cache: KvCache, token_ids: list[int], salt: str = "") -> PrefixReport:
    table = cache.open(salt)
    return cache.report(table, cache.match(table, token_ids), token_ids)


def test_a_new_prompt_was_never_seen() -> None:
    assert run(make_cache(), PROMPT) == PrefixReport((), MissReason.NEVER_SEEN)


def test_a_prompt_without_a_whole_block_has_nothing_to_find() -> None:
    assert run(make_cache(), [1, 2, 3]).reason is MissReason.SHORTER_THAN_BLOCK


def test_nothing_is_missing_of_a_prompt_but_its_last_token() -> None:
    cache = make_cache()
    run(cache, PROMPT)
    assert run(cache, PROMPT) == PrefixReport(((Level.ENGINE, 12),), None)


def test_the_tail_behind_whole_blocks_is_shorter_than_one() -> None:
    cache = make_cache()
    run(cache, PROMPT)
    assert ask(cache, [*PROMPT[:12], 50, 51]) == PrefixReport(((Level.ENGINE, 12),), MissReason.SHORTER_THAN_BLOCK)


def test_what_was_evicted_says_when_and_for_whom() -> None:
    cache = make_cache(4)
    run(cache, PROMPT)
    cache.advance(100.0)
    run(cache, list(range(50, 63)), request_id="greedy")
    cache.advance(107.0)
    assert ask(cache, PROMPT) == PrefixReport((), MissReason.EVICTED, removed_s_ago=7.0, removed_by="greedy")


def test_what_nobody_used_for_its_time_to_live_has_expired() -> None:
    cache = make_cache(4)
    run(cache, PROMPT)
    cache.advance(1e6)
    run(cache, list(range(50, 63)))
    assert ask(cache, PROMPT).reason is MissReason.EXPIRED


def test_what_was_forgotten_says_so_until_it_is_computed_again() -> None:
    cache = make_cache()
    run(cache, PROMPT)
    cache.forget(Forget(Scope.TENANT, cache.open("").owner.tenant))
    assert ask(cache, PROMPT).reason is MissReason.INVALIDATED
    run(cache, PROMPT)
    assert ask(cache, PROMPT).reason is None


def test_what_another_tenant_sent_is_not_there_for_this_one() -> None:
    cache = make_cache(16)
    run(cache, PROMPT, "a")
    assert ask(cache, PROMPT, "b") == PrefixReport((), MissReason.OTHER_SALT)
    run(cache, PROMPT[:5], "b")
    assert ask(cache, PROMPT, "b") == PrefixReport(((Level.ENGINE, 4),), MissReason.OTHER_SALT)


def test_the_ledger_gives_up_the_oldest() -> None:
    ledger, owner = MissLedger(10), Owner(b"model", b"tenant", b"root")
    for number in range(100):
        name = bytes([number])
        ledger.listed(Node(name, owner, content=name))
        ledger.removed(name, Removal(MissReason.EVICTED, float(number)))
    assert len(ledger) == 10
    assert ledger.why(bytes([99]), bytes([99]), owner).at_s == 99.0
    assert ledger.why(bytes([5]), bytes([5]), owner).reason is MissReason.NEVER_SEEN


def test_facts_are_kept_for_who_watches() -> None:
    cache = make_cache(3)
    run(cache, PROMPT[:9])
    assert cache.drain_facts() == ()
    cache.watch()
    run(cache, [50, 51, 52, 53, 54, 55, 56, 57, 58], "tenant")
    table = cache.open("tenant")
    cache.match(table, [50, 51, 52, 53, 54, 55, 56, 57, 58])
    first, second = table.names
    gone = cache.open("")
    cache.match(gone, PROMPT[:9])
    assert cache.drain_facts() == (
        BlockRemoved(Level.ENGINE, gone.names[1]),
        BlockRemoved(Level.ENGINE, gone.names[0]),
        BlockStored(Level.ENGINE, first, None, (50, 51, 52, 53), table.owner.tenant),
        BlockStored(Level.ENGINE, second, first, (54, 55, 56, 57), table.owner.tenant),
    )
    assert cache.drain_facts() == ()


def test_what_stands_for_tokens_is_the_same_however_much_of_them_was_found() -> None:
    cache = make_cache(16)
    run(cache, PROMPT[:5])
    run(cache, PROMPT)  # goes on behind the block that was found
    alone = cache.content_behind(PrefixMatch(2, []), PROMPT)
    assert cache.content_behind(cache.match(cache.open(""), PROMPT[:12]), PROMPT) == alone
    assert cache.match(cache.open(""), PROMPT).content == alone


def test_another_tenants_blocks_explain_a_miss_behind_blocks_of_ones_own() -> None:
    cache = make_cache(16)
    run(cache, PROMPT, salt="theirs")
    run(cache, PROMPT[:5])
    assert ask(cache, PROMPT).reason is MissReason.OTHER_SALT
