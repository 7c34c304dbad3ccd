"""The comparison of ways to commit the pool runs, and its processes do what they are to compare."""

from benchmarks.kvcache.commit import Setting, compare, table
from benchmarks.kvcache.first_request import Pages, Way

SETTING = Setting("tiny-deepseek", kv_memory_bytes=32 << 20, num_prompt_tokens=64)


def test_each_way_commits_what_it_says() -> None:
    found = compare(SETTING, 1, [Pages.SMALL])
    whole, chunked, lazy = (found[way, Pages.SMALL] for way in Way)
    assert whole.start_pool_bytes == whole.pool_bytes > 30 << 20
    assert chunked.start_pool_bytes == lazy.start_pool_bytes == 0
    assert 0 < lazy.pool_bytes <= chunked.pool_bytes < whole.pool_bytes / 4
    assert whole.start_faults > chunked.start_faults
    assert all(run.first_token_s > 0 and run.decode_s > 0 for run in found.values())
    assert len(table(found).splitlines()) == 2 + len(Way)
