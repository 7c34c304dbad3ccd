import pytest

from tailrace.errors import SetupError
from tailrace.kvcache.config import KvCacheConfig, SweepConfig


@pytest.mark.parametrize(
    ("num_blocks", "chunk_tokens", "chunk_blocks"), [(100, 128, 8), (100, 129, 9), (100, 1, 1), (5, 1 << 40, 5)]
)
def test_a_chunk_is_whole_blocks_and_at_most_the_pool(num_blocks: int, chunk_tokens: int, chunk_blocks: int) -> None:
    assert KvCacheConfig(num_blocks, 16, (), chunk_tokens=chunk_tokens).chunk_blocks == chunk_blocks


def test_chunks_of_nothing_are_refused() -> None:
    with pytest.raises(SetupError, match="chunks of 0 tokens"):
        KvCacheConfig(100, 16, (), chunk_tokens=0)


@pytest.mark.parametrize("sweep", [{"period_s": 0.0}, {"max_blocks": 0}, {"num_passes": 0}])
def test_sweeps_that_never_end_or_never_come_are_refused(sweep: dict[str, int]) -> None:
    with pytest.raises(SetupError, match="above zero"):
        SweepConfig(**sweep)
