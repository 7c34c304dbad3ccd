import random

from tailrace.kvcache.block import Block
from tailrace.kvcache.chunks import Chunk, ChunkMap, MemoryChange, fullest_first
from tailrace.kvcache.lifecycle import BlockState


def chunks_of(num_blocks: int, chunk_blocks: int) -> ChunkMap:
    return ChunkMap([Block(block_id) for block_id in range(num_blocks)], chunk_blocks, fullest_first)


def take(chunks: ChunkMap, count: int, group: int = 0) -> list[Block]:
    blocks = chunks.take(count, group)
    for block in blocks:
        block.move(BlockState.RESERVED)
    return blocks


def put(chunks: ChunkMap, blocks: list[Block], now_s: float = 0.0) -> None:
    for block in blocks:
        block.move(BlockState.FREE)
        chunks.put(block, now_s)


def ids(blocks: list[Block]) -> list[int]:
    return [block.block_id for block in blocks]


def test_nothing_has_memory_until_it_is_taken() -> None:
    chunks = chunks_of(10, 4)
    assert chunks.num_committed_chunks == 0
    assert all(block.state is BlockState.RELEASED for block in chunks.free_blocks())
    assert ids(take(chunks, 5)) == [0, 1, 2, 3, 4]
    assert chunks.take_change() == MemoryChange(committed=(range(8),))
    assert not chunks.take_change()
    assert (chunks.num_free, chunks.num_released) == (5, 2)
    chunks.check()


def test_the_last_chunk_may_be_shorter() -> None:
    chunks = chunks_of(5, 4)
    assert ids(take(chunks, 5)) == [0, 1, 2, 3, 4]
    assert chunks.take_change() == MemoryChange(committed=(range(5),))
    chunks.check()


def test_the_fullest_chunk_is_filled_first() -> None:
    chunks = chunks_of(12, 4)
    blocks = take(chunks, 12)
    put(chunks, [blocks[1], blocks[4], blocks[5], blocks[8], blocks[9], blocks[10]])
    assert [take(chunks, 1)[0].block_id // 4 for _ in range(6)] == [0, 1, 1, 2, 2, 2]
    chunks.check()


def test_an_empty_chunk_with_memory_goes_before_one_without() -> None:
    chunks = chunks_of(12, 4)
    put(chunks, take(chunks, 8))
    chunks.take_change()
    take(chunks, 8)
    assert not chunks.take_change()
    chunks.check()


def test_memory_goes_back_once_a_chunk_has_been_empty_for_long() -> None:
    chunks = chunks_of(12, 4)
    blocks = take(chunks, 12)
    chunks.take_change()
    put(chunks, blocks[4:8], now_s=1.0)
    put(chunks, blocks[8:], now_s=2.0)
    assert chunks.empty_s == 1.0
    chunks.release_empty(before_s=1.5)
    assert chunks.take_change() == MemoryChange(released=(range(4, 8),))
    assert chunks.empty_s == 2.0
    chunks.release_empty(before_s=2.0)
    assert chunks.take_change() == MemoryChange(released=(range(8, 12),))
    chunks.check()


def test_a_chunk_released_and_taken_again_before_anybody_was_told_keeps_its_memory() -> None:
    chunks = chunks_of(4, 4)
    put(chunks, take(chunks, 4))
    chunks.take_change()
    chunks.release_empty(before_s=0.0)
    take(chunks, 1)
    assert not chunks.take_change()


def test_a_chunk_committed_and_released_before_anybody_was_told_never_has_memory() -> None:
    chunks = chunks_of(4, 4)
    put(chunks, take(chunks, 4))
    chunks.release_empty(before_s=0.0)
    assert not chunks.take_change()


def test_a_group_fills_its_own_chunk_first_then_others_before_one_that_needs_memory() -> None:
    chunks = chunks_of(12, 4)
    begun = [*take(chunks, 5, group=0), *take(chunks, 4, group=1)]  # three of the second group lie with the first
    assert ids(begun) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    put(chunks, begun[4:5])
    assert ids(take(chunks, 1, group=1)) == [9]
    assert ids(take(chunks, 1, group=0)) == [4]
    chunks.check()


def test_a_block_changes_places_with_a_free_one() -> None:
    chunks = chunks_of(8, 4)
    block, *_ = take(chunks, 6)
    other = chunks.chunks[1].free[-1]
    was = other.block_id
    assert chunks.relocate(block, chunks.chunks[1], 0.0) == was
    assert (block.block_id, other.block_id) == (was, 0)
    assert other in chunks.chunks[0].free
    chunks.check()


def test_what_is_lost_is_counted_in_the_last_chunk_too() -> None:
    chunks = chunks_of(6, 4)
    taken = take(chunks, 6)
    assert chunks.lost_share == 0.0
    put(chunks, [taken[0], taken[5]])
    assert (chunks.num_lost, chunks.num_partial, chunks.room_of(0)) == (2, 2, 2)
    put(chunks, [taken[4]])
    assert (chunks.num_lost, chunks.lost_share) == (1, 0.25)
    chunks.check()


def test_a_choice_is_asked_with_the_group() -> None:
    asked = []

    def choose(chunks: ChunkMap, group: int) -> Chunk | None:
        asked.append(group)
        return fullest_first(chunks, group)

    chunks = ChunkMap([Block(block_id) for block_id in range(8)], 4, choose)
    take(chunks, 5, group=1)
    assert asked == [1, 1]


def test_random_takes_and_puts_lose_no_block_and_no_memory() -> None:
    draw = random.Random(3)
    chunks, committed, held = chunks_of(61, 5), set[int](), list[Block]()
    for second in range(3_000):
        if draw.random() < 0.5 and chunks.num_free:
            held += take(chunks, draw.randint(1, min(chunks.num_free, 12)), draw.randrange(3))
        else:
            draw.shuffle(held)
            leaving, held = held[:9], held[9:]
            put(chunks, leaving, float(second))
        if draw.random() < 0.2:
            chunks.release_empty(second - 3.0)
        change = chunks.take_change()
        assert all(committed.issuperset(run) for run in change.released)
        assert all(committed.isdisjoint(run) for run in change.committed)
        committed.difference_update(*change.released)
        committed.update(*change.committed)
        assert committed.issuperset(ids(held))
        assert len(set(ids(held))) == len(held)
        chunks.check()
