from tailrace.kvcache.cache import KvCache, KvCacheConfig

BLOCK = 4


def make_cache(num_blocks: int) -> KvCache:
    return KvCache(KvCacheConfig(num_blocks, BLOCK, ("model",)))


class Sequence:
    """Tokens of its own, a block at first."""

    def __init__(self, cache: KvCache, number: int, num_ahead: int = 0) -> None:
        self.cache, self.table = cache, cache.open("")
        self.token_ids = [number * 100 + offset for offset in range(BLOCK)]
        match = cache.match(self.table, self.token_ids)
        assert cache.acquire(self.table, match, BLOCK, 0) is not None
        cache.set_aside(self.table, num_ahead)

    def grow(self, num_blocks: int) -> list[int]:
        return [block_id for _ in range(num_blocks) if (block_id := self.cache.grow(self.table)) is not None]

    def leave(self) -> None:
        self.cache.seal(self.table, self.token_ids, BLOCK)
        self.cache.release(self.table)
        self.cache.check()


def test_a_sequence_grows_into_what_was_set_aside_for_it() -> None:
    cache = make_cache(12)
    sequences = [Sequence(cache, number, num_ahead=3) for number in range(3)]
    cache.check()
    for _ in range(3):
        for sequence in sequences:
            sequence.grow(1)
    assert [[block.block_id for block in sequence.table.blocks] for sequence in sequences] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]
    cache.check()


def test_what_is_set_aside_is_not_used() -> None:
    cache = make_cache(8)
    Sequence(cache, 0, num_ahead=3)
    stats = cache.stats
    assert (stats.num_used, stats.num_aside, stats.num_cached, stats.num_free) == (1, 3, 0, 4)


def test_what_is_left_comes_back_at_the_end() -> None:
    cache = make_cache(8)
    sequence = Sequence(cache, 0, num_ahead=5)
    sequence.grow(2)
    sequence.leave()
    assert (cache.stats.num_aside, cache.stats.num_free) == (0, 7)


def test_a_newcomer_gets_what_was_set_aside_for_others() -> None:
    cache = make_cache(4)
    Sequence(cache, 0, num_ahead=3)
    newcomer = cache.open("")
    token_ids = list(range(900, 900 + 3 * BLOCK))
    assert cache.acquire(newcomer, cache.match(newcomer, token_ids), len(token_ids), 0) is not None
    assert cache.stats.num_aside == 0
    cache.check()


def test_who_reserved_last_pays_first() -> None:
    cache = make_cache(6)
    first, second = Sequence(cache, 0, num_ahead=2), Sequence(cache, 1, num_ahead=2)
    Sequence(cache, 2)
    assert (first.grow(1), second.grow(1)) == ([1], [4])
    assert first.grow(1) == [2]


def test_no_idle_block_is_evicted_for_a_reservation() -> None:
    cache = make_cache(4)
    Sequence(cache, 0).leave()
    Sequence(cache, 1, num_ahead=10)
    assert (cache.stats.num_cached, cache.stats.num_aside, cache.stats.num_evicted) == (1, 2, 0)


def test_reserved_blocks_go_before_idle_ones() -> None:
    cache = make_cache(4)
    Sequence(cache, 0).leave()
    Sequence(cache, 1, num_ahead=2)
    Sequence(cache, 2).grow(1)
    assert (cache.stats.num_cached, cache.stats.num_aside, cache.stats.num_evicted) == (1, 0, 0)
