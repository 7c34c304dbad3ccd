"""The benchmark of what deciding costs runs, on sizes that take no time."""

from benchmarks.scheduling.bookkeeping import CacheLoad, admit_us, cache_us, cases, decode_us


def test_every_step_is_timed() -> None:
    assert len(decode_us(4, 100, 200, num_steps=40)) == 40
    assert len(admit_us(100, num_blocks=20, is_cached=False, num_requests=5)) == 4
    assert all(time_us > 0 for time_us in cache_us(4, 100, 50, num_steps=70))


def test_every_block_that_a_sequence_takes_is_evicted_for_it() -> None:
    load = CacheLoad(num_running=4, num_prompt_tokens=100, num_named=60)
    load.cache.check()
    before = load.cache.stats
    for _ in range(64):
        load.step_us()
    load.cache.check()
    after = load.cache.stats
    assert after.num_used == before.num_used + 4 * 2
    assert after.num_evicted >= 4
    assert after.num_free == 0


def test_the_largest_cache_is_left_out_when_asked() -> None:
    assert sum(name.startswith("cache") for name in cases(10_000)) == 2
