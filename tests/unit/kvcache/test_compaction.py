import random

import pytest

from tailrace.errors import SetupError
from tailrace.kvcache.chunks import fullest_first
from tailrace.kvcache.compaction import Compaction
from tailrace.kvcache.config import CompactionConfig, KvCacheConfig
from tailrace.kvcache.lifecycle import BlockState
from tailrace.kvcache.pool import BlockPool

CHUNK = 4
ALWAYS = CompactionConfig(begin_above=0.0, end_below=0.0, urgent_above=0.0, urgent_until=0.0, urgent_moves_a_step=100)


def make_pool(num_chunks: int) -> BlockPool:
    return BlockPool(KvCacheConfig(num_chunks * CHUNK, 1, (), chunk_tokens=CHUNK), fullest_first)


def pool_with(*num_held: int) -> BlockPool:
    """A pool with a chunk for each count, whose first so many blocks are being filled."""
    pool = make_pool(len(num_held))
    for block in pool.take_all(len(num_held) * CHUNK):
        if block.block_id % CHUNK < num_held[block.block_id // CHUNK]:
            pool.fill(block)
        else:
            pool.put_free(block)
    return pool


def held(pool: BlockPool) -> list[int]:
    return [chunk.num_occupied for chunk in pool.chunks.chunks]


def step(compaction: Compaction, *pinned: int, is_quiet: bool = True) -> list[tuple[int, int]]:
    return compaction.step(is_quiet=is_quiet, pinned=lambda: pinned)


def compact(pool: BlockPool, *pinned: int) -> list[tuple[int, int]]:
    return step(Compaction(pool, ALWAYS), *pinned)


def test_the_emptiest_chunk_goes_into_the_fullest() -> None:
    pool = pool_with(1, 3, 2)
    assert compact(pool) == [(0, 7)]
    assert held(pool) == [0, 4, 2]


def test_chunks_are_emptied_as_long_as_others_have_room() -> None:
    pool = pool_with(1, 1, 1, 1, 2)
    compaction = Compaction(pool, ALWAYS)
    assert [len(step(compaction)) for _ in range(2)] == [3, 0]
    assert sorted(held(pool)) == [0, 0, 0, 2, 4]


def test_a_chunk_that_fits_nowhere_stays() -> None:
    pool = pool_with(3, 3, 4)
    assert compact(pool) == []


def test_a_pinned_block_keeps_its_chunk() -> None:
    pool = pool_with(1, 2, 2)
    assert compact(pool, 0) == [(4, 11), (5, 10)]
    assert held(pool) == [1, 0, 4]


def test_a_block_in_which_nothing_is_yet_keeps_its_chunk() -> None:
    pool = pool_with(1, 2, 4)
    pool.blocks[0].state = BlockState.RESERVED
    assert compact(pool) == [(4, 3), (5, 2)]


def test_a_group_is_compacted_within_itself() -> None:
    pool = make_pool(4)
    for block in [*pool.take_all(2 * CHUNK, 0), *pool.take_all(2 * CHUNK, 1)]:
        pool.fill(block)
        if block.block_id % CHUNK:
            pool.put_free(block)
    assert compact(pool) == [(0, 7), (8, 15)]


def test_what_moves_is_the_block_with_all_that_is_known_of_it() -> None:
    pool = pool_with(1, 3)
    block = pool.blocks[0]
    block.num_users = 7
    assert compact(pool) == [(0, 7)]
    assert pool.blocks[7] is block
    assert (block.block_id, block.num_users, block.state) == (7, 7, BlockState.FILLING)
    assert [one.block_id for one in pool.blocks] == list(range(8))
    assert pool.blocks[0].state is BlockState.FREE


def test_an_idle_block_is_evicted_when_it_would_have_been() -> None:
    pool = pool_with(1, 3)
    first, second = pool.blocks[0], pool.blocks[4]
    for now_s, block in ((1.0, first), (2.0, second)):
        pool.advance(now_s)
        block.uses = block.uses.until(now_s)
        pool.seal(block)
        pool.put_idle(block)
    assert len(compact(pool)) == 1
    found = pool.victim()
    assert found is not None
    assert found[0] is first


def steps(pool: BlockPool, config: CompactionConfig, *, is_quiet: bool, count: int) -> list[int]:
    compaction = Compaction(pool, config)
    return [len(step(compaction, is_quiet=is_quiet)) for _ in range(count)]


def test_background_moves_wait_for_quiet_steps() -> None:
    config = CompactionConfig(moves_a_step=2)
    assert steps(pool_with(*[1] * 3, *[2] * 6), config, is_quiet=True, count=2) == [2, 2]  # 5 of 12 used: 58% lost
    assert steps(pool_with(*[1] * 3, *[2] * 6), config, is_quiet=False, count=2) == [0, 0]


def test_urgent_moves_wait_for_nobody() -> None:
    assert steps(pool_with(*[1] * 12), CompactionConfig(urgent_moves_a_step=5), is_quiet=False, count=1) == [5]


def test_below_the_threshold_nothing_moves() -> None:
    assert steps(pool_with(*[2] * 12), CompactionConfig(), is_quiet=True, count=1) == [0]


def test_once_begun_it_goes_on_below_the_threshold() -> None:
    pool = pool_with(*[1] * 4, *[2] * 8)  # 58% lost
    compaction = Compaction(pool, CompactionConfig(moves_a_step=1))
    shares = []
    while step(compaction):
        shares.append(round(pool.chunks.lost_share, 2))
    assert shares == [0.55, 0.5, 0.44]
    assert steps(pool, CompactionConfig(), is_quiet=True, count=1) == [0]


def test_a_chunk_is_emptied_over_several_steps() -> None:
    pool = pool_with(2, 2)
    compaction = Compaction(pool, CompactionConfig(0.0, 0.0, 1.0, 1.0, moves_a_step=1))
    for _ in range(2):
        step(compaction)
    assert sorted(held(pool)) == [0, 4]


@pytest.mark.parametrize("seed", range(20))
def test_no_id_is_in_two_moves_and_none_is_lost(seed: int) -> None:
    draw = random.Random(seed)
    pool = pool_with(*[draw.randint(0, CHUNK) for _ in range(30)])
    before = {block: block.block_id for block in pool.blocks if block.state is not BlockState.FREE}
    moves = compact(pool)
    ids = [block_id for move in moves for block_id in move]
    assert len(set(ids)) == len(ids)
    places = dict(moves)
    assert all(block.block_id == places.get(was, was) for block, was in before.items())
    free = {block.block_id for block in pool.free_blocks()}
    assert free == set(range(30 * CHUNK)) - {block.block_id for block in before}
    pool.chunks.check()
    while compact(pool):
        pass
    counts = sorted(count for count in held(pool) if 0 < count < CHUNK)
    assert not counts or sum(CHUNK - count for count in counts[1:]) < counts[0], "there is still one to empty"


@pytest.mark.parametrize(
    "fields",
    [
        {"begin_above": 0.3},
        {"urgent_above": 0.5},
        {"urgent_until": 0.8},
        {"urgent_until": 0.1},
        {"moves_a_step": 0},
        {"urgent_moves_a_step": 0},
    ],
)
def test_senseless_settings_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(SetupError):
        CompactionConfig(**fields)  # type: ignore[arg-type]  # whole numbers among them
