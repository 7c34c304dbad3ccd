"""Which blocks have memory: it comes and goes in chunks of consecutive blocks. Knows free blocks from others, no more.

A chunk gets memory when one of its blocks is taken, and may give it back once all of them are free again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tailrace.kvcache.block import Block
from tailrace.kvcache.lifecycle import BlockState

__all__ = ["NO_CHANGE", "ChooseChunk", "Chunk", "ChunkMap", "MemoryChange", "fullest_first"]


@dataclass(slots=True, eq=False)
class Chunk:
    """Some consecutive blocks. `group` is of whoever took the first of them; it lasts until all are free."""

    chunk_id: int
    blocks: list[Block] = field(repr=False)
    free: list[Block] = field(repr=False)  # a stack
    is_committed: bool = False
    has_memory: bool = False  # as far as the runtime has been told
    group: int = 0

    @property
    def num_occupied(self) -> int:
        return len(self.blocks) - len(self.free)

    @property
    def block_ids(self) -> range:
        return range(self.blocks[0].block_id, self.blocks[-1].block_id + 1)


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Runs of blocks that get memory, and that give theirs back. No block is in both."""

    committed: tuple[range, ...] = ()
    released: tuple[range, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.committed or self.released)


NO_CHANGE = MemoryChange()


class ChunkMap:
    """All chunks of a pool. A free block lies in one of them, and each chunk in one of these places:

    full         no block is free
    partial      some blocks are free; by group and by how many are not
    empty        all are free, and it has memory; the longest so first
    released     all are free, and it has none; the lowest first
    """

    def __init__(self, blocks: Sequence[Block], chunk_blocks: int, choose: "ChooseChunk | None" = None) -> None:
        self.chunk_blocks = chunk_blocks
        self.chunks = tuple(
            Chunk(number, list(part), list(reversed(part)))
            for number, part in enumerate(
                blocks[start : start + chunk_blocks] for start in range(0, len(blocks), chunk_blocks)
            )
        )
        self.num_free = len(blocks)  # with memory and without
        self.num_released = len(blocks)  # of these, without
        self._choose = choose or fullest_first
        self._partial: dict[int, list[OrderedDict[int, Chunk]]] = {}  # ordered: the first one of many is found at once
        self._empty: OrderedDict[int, float] = OrderedDict()  # when it became so
        self._released = list(range(len(self.chunks)))  # a heap
        self._changed: dict[int, Chunk] = {}
        self._num_short = chunk_blocks - len(self.chunks[-1].blocks)  # what the last one lacks
        self.is_touched = bytearray(len(self.chunks))  # of each, whether some block is not free

    @property
    def num_partial(self) -> int:
        return sum(len(chunks) for by_occupied in self._partial.values() for chunks in by_occupied)

    @property
    def num_lost(self) -> int:
        """Free blocks of partial chunks: memory that nobody uses, and that cannot be given back."""
        num_empty = len(self._empty) * self.chunk_blocks - self._num_short * (self.chunks[-1].chunk_id in self._empty)
        return self.num_free - self.num_released - num_empty

    @property
    def lost_share(self) -> float:
        """Of the blocks of partial and full chunks, those that are free, 0 to 1."""
        num_touched = len(self.chunks) - len(self._released) - len(self._empty)
        return self.num_lost / (num_touched * self.chunk_blocks) if num_touched else 0.0

    @property
    def num_committed_chunks(self) -> int:
        return len(self.chunks) - len(self._released)

    def free_blocks(self) -> Iterator[Block]:
        for chunk in self.chunks:
            yield from chunk.free

    def take(self, count: int, group: int) -> list[Block]:
        """So many free blocks, neighbours as far as possible. They stay free: the caller moves them on."""
        taken: list[Block] = []
        while len(taken) < count:
            chunk = self._choose(self, group)
            assert chunk is not None, "a block is taken where none is free"
            taken += self._take_from(chunk, count - len(taken), group)
        self.num_free -= count
        return taken

    def put(self, block: Block, now_s: float) -> None:
        """A block is free again."""
        chunk = self.chunks[block.block_id // self.chunk_blocks]
        if chunk.free:
            del self._partial[chunk.group][chunk.num_occupied][chunk.chunk_id]
        chunk.free.append(block)
        self.num_free += 1
        if chunk.num_occupied:
            self._list_partial(chunk)
        else:
            self._empty[chunk.chunk_id] = now_s
            self.is_touched[chunk.chunk_id] = False

    def relocate(self, block: Block, target: Chunk, now_s: float) -> int:
        """Let a block that is not free change places with a free one of a partial chunk; its new id.

        What lies in it must be copied there before anybody looks.
        """
        (other,) = self._take_from(target, 1, target.group)
        for one, block_id in ((block, other.block_id), (other, block.block_id)):
            one.block_id = block_id
            chunk, place = divmod(block_id, self.chunk_blocks)
            self.chunks[chunk].blocks[place] = one
        self.num_free -= 1
        self.put(other, now_s)
        return block.block_id

    def release_empty(self, before_s: float) -> None:
        """Take the memory of all chunks that became empty at `before_s` or earlier."""
        while self._empty:
            chunk_id, empty_s = next(iter(self._empty.items()))
            if empty_s > before_s:
                return
            del self._empty[chunk_id]
            self._release(self.chunks[chunk_id])

    @property
    def empty_s(self) -> float | None:
        """When the chunk that has been empty for longest became so."""
        return next(iter(self._empty.values()), None)

    def take_change(self) -> MemoryChange:
        """What has changed since the last call."""
        if not self._changed:
            return NO_CHANGE
        changed = [chunk for _, chunk in sorted(self._changed.items()) if chunk.is_committed != chunk.has_memory]
        self._changed.clear()
        for chunk in changed:
            chunk.has_memory = chunk.is_committed
        return MemoryChange(
            committed=_runs(chunk.block_ids for chunk in changed if chunk.is_committed),
            released=_runs(chunk.block_ids for chunk in changed if not chunk.is_committed),
        )

    def check(self) -> None:
        """Assert that each chunk lies where it belongs, and what is not free has memory. For tests: it visits all."""
        released = set(self._released)
        assert sum(len(chunk.free) for chunk in self.chunks) == self.num_free, "free blocks are counted wrongly"
        assert sum(len(self.chunks[number].blocks) for number in released) == self.num_released
        partial = [chunk for chunk in self.chunks if 0 < chunk.num_occupied < len(chunk.blocks)]
        assert self.num_lost == sum(len(chunk.free) for chunk in partial) == sum(map(self.room_of, self.groups))
        assert self.num_partial == len(partial)
        assert [bool(chunk.num_occupied) for chunk in self.chunks] == [bool(touched) for touched in self.is_touched]
        for chunk in self.chunks:
            assert [block.block_id for block in chunk.blocks] == list(chunk.block_ids), f"{chunk} has blocks of others"
            is_empty, number = chunk.num_occupied == 0, chunk.chunk_id
            in_group = self._partial.get(chunk.group)
            is_partial = in_group is not None and any(number in listed for listed in in_group)
            is_listed = in_group is not None and number in in_group[chunk.num_occupied % self.chunk_blocks]
            assert is_partial == is_listed == (not is_empty and bool(chunk.free)), f"{chunk} is misplaced"
            assert (number in self._empty) == (is_empty and chunk.is_committed), f"{chunk} keeps its memory for ever"
            assert (number in released) == (not chunk.is_committed), f"{chunk} has memory and has not"
            assert chunk.is_committed or is_empty, f"{chunk} is used without memory"

    # What a choice is made from.

    @property
    def groups(self) -> tuple[int, ...]:
        """Those that have had partial chunks."""
        return tuple(self._partial)

    def fullest(self, group: int, besides: Chunk | None = None) -> Chunk | None:
        """Of the chunks of a group that have room, one with least of it, `besides` left out."""
        for chunks in reversed(self._partial.get(group, ())):
            for chunk in chunks.values():
                if chunk is not besides:
                    return chunk
        return None

    def emptiest_first(self, group: int) -> Iterator[Chunk]:
        """The partial chunks of a group."""
        for chunks in self._partial.get(group, ()):
            yield from chunks.values()

    def room_of(self, group: int) -> int:
        """Free blocks in the partial chunks of a group."""
        last, by_occupied = self.chunks[-1], self._partial.get(group, ())
        room = sum((self.chunk_blocks - occupied) * len(chunks) for occupied, chunks in enumerate(by_occupied))
        return room - self._num_short * (last.group == group and 0 < last.num_occupied < len(last.blocks))

    def empty(self) -> Chunk | None:
        """Of the chunks with memory and no group, the latest that became so."""
        return self.chunks[next(reversed(self._empty))] if self._empty else None

    def released(self) -> Chunk | None:
        """The lowest chunk without memory."""
        return self.chunks[self._released[0]] if self._released else None

    def any_with_room(self) -> Chunk | None:
        """A chunk of any group, the fullest of it."""
        fullest = (self.fullest(group) for group in self._partial)
        return next((chunk for chunk in fullest if chunk is not None), None)

    def _take_from(self, chunk: Chunk, count: int, group: int) -> list[Block]:
        if chunk.num_occupied:
            del self._partial[chunk.group][chunk.num_occupied][chunk.chunk_id]
        else:
            self._begin(chunk, group)
        kept = max(len(chunk.free) - count, 0)
        taken = chunk.free[kept:]
        taken.reverse()
        del chunk.free[kept:]
        if chunk.free:
            self._list_partial(chunk)
        return taken

    def _begin(self, chunk: Chunk, group: int) -> None:
        chunk.group = group
        self.is_touched[chunk.chunk_id] = True
        if chunk.is_committed:
            del self._empty[chunk.chunk_id]
        else:
            self._commit(chunk)

    def _list_partial(self, chunk: Chunk) -> None:
        by_occupied = self._partial.get(chunk.group)
        if by_occupied is None:
            by_occupied = self._partial[chunk.group] = [OrderedDict() for _ in range(self.chunk_blocks)]
        by_occupied[chunk.num_occupied][chunk.chunk_id] = chunk

    def _commit(self, chunk: Chunk) -> None:
        lowest = heappop(self._released)
        assert lowest == chunk.chunk_id, "chunks without memory are taken from the lowest on"
        self.num_released -= len(chunk.blocks)
        self._turn(chunk, BlockState.FREE)

    def _release(self, chunk: Chunk) -> None:
        heappush(self._released, chunk.chunk_id)
        self.num_released += len(chunk.blocks)
        self._turn(chunk, BlockState.RELEASED)

    def _turn(self, chunk: Chunk, state: BlockState) -> None:
        for block in chunk.blocks:
            block.move(state)
        chunk.is_committed = state is BlockState.FREE
        self._changed[chunk.chunk_id] = chunk


ChooseChunk = Callable[[ChunkMap, int], Chunk | None]
"""From which chunk a group gets its next blocks, of those that the map offers. None only when no block is free."""


def fullest_first(chunks: ChunkMap, group: int) -> Chunk | None:
    """Fill up what is begun, of the same group first, before a chunk that needs memory."""
    return chunks.fullest(group) or chunks.any_with_room() or chunks.empty() or chunks.released()


def _runs(parts: Iterable[range]) -> tuple[range, ...]:
    """Ascending ranges, neighbours joined."""
    runs: list[range] = []
    for part in parts:
        if runs and runs[-1].stop == part.start:
            runs[-1] = range(runs[-1].start, part.stop)
        else:
            runs.append(part)
    return tuple(runs)
