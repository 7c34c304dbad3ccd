"""Levels below a simulated engine: one dict of digests for each, which answer late, in part, or not at all.

They hold those who use them to the contract: nobody touches a block that is being fetched, nobody changes one that is
being saved, and nobody asks for what was never told.
"""

from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from random import Random

from tailrace.kvcache.forget import Forget
from tailrace.kvcache.transfer import BlockHead, Fetch, FetchAnswer, Lookup, LookupAnswer, Save, SaveAnswer, StoreAnswer
from tailrace.types import Level

__all__ = ["Faults", "SimulatedStore"]

Cells = MutableMapping[tuple[int, int], bytes]  # by block and offset, as in the simulated runner
GARBAGE = b"being written"


@dataclass(frozen=True)
class Faults:
    """How often, of a hundred times, something goes wrong."""

    slow: int = 0  # an answer comes not with the next look but later
    down: int = 0  # a level does not answer a lookup, or a fetch fails half-way
    gone: int = 0  # a block that was found is not there any more when it is fetched
    dropped: int = 0  # a block that was to be saved is not
    refused: int = 0  # the store takes only some saves


@dataclass
class _Level:
    blocks: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)


class SimulatedStore:
    """A BlockStore over a simulated runner's memory. `finish` is called by `take`: time passes with each look."""

    due_s: float | None = None

    def __init__(
        self, levels: tuple[Level, ...], memory: Cells, block_tokens: int, faults: Faults | None = None, seed: int = 0
    ) -> None:
        self.levels = levels
        self.is_closed = False
        self.lookup_s = 0.0  # what each level takes for a lookup
        self.fetch_s = 0.0  # what a fetch takes; simulated steps take no time
        self.fetching: set[int] = set()  # blocks
        self.saving: dict[int, tuple[bytes, ...]] = {}
        self.elsewhere: BlockHead | None = None  # what is said to be there instead
        self.num_faults = 0
        self.num_fetched: dict[Level, int] = dict.fromkeys(levels, 0)
        self._memory = memory
        self._block_tokens = block_tokens
        self._faults = faults or Faults()
        self._random = Random(seed)
        self._stored = {level: _Level() for level in levels}
        self._jobs: deque[Callable[[], StoreAnswer]] = deque()
        self._now = 0

    @property
    def num_pending(self) -> int:
        return len(self._jobs)

    def holds(self, name: bytes) -> bool:
        return any(name in stored.blocks for stored in self._stored.values())

    def clear(self, level: Level) -> None:
        self._stored[level].blocks.clear()

    def look_up(self, lookup: Lookup) -> None:
        assert lookup.names
        self._jobs.append(lambda: self._find(lookup))

    def fetch(self, fetch: Fetch) -> None:
        assert fetch.names
        assert len(fetch.names) == len(fetch.block_ids)
        assert not self.fetching & set(fetch.block_ids)
        assert not self.saving.keys() & set(fetch.block_ids)
        self.fetching.update(fetch.block_ids)
        for block_id in fetch.block_ids:
            self._write(block_id, (GARBAGE,) * self._block_tokens)
        self._jobs.append(lambda: self._copy(fetch))

    def save(self, saves: tuple[Save, ...]) -> int:
        assert saves
        count = self._random.randint(0, len(saves)) if self._has(self._faults.refused) else len(saves)
        for save in saves[:count]:
            assert save.block_id not in self.fetching
            assert save.block_id not in self.saving
            self.saving[save.block_id] = self._read(save.block_id)
            self._jobs.append(lambda save=save: self._keep(save))  # type: ignore[misc]  # mypy: lambda defaults
        return count

    def forget(self, forgets: tuple[Forget, ...]) -> None:
        for stored in self._stored.values():
            for forget in forgets:
                stored.blocks.pop(forget.target, None)

    def take(self) -> list[StoreAnswer]:
        answers, waiting = [], deque[Callable[[], StoreAnswer]]()
        while self._jobs:
            job = self._jobs.popleft()
            if self._has(self._faults.slow):
                waiting.append(job)
            else:
                answers.append(job())
        self._jobs = waiting
        return answers

    def close(self) -> None:
        self.is_closed = True

    def _find(self, lookup: Lookup) -> LookupAnswer:
        found: list[Level] = []
        asked = [level for level in self.levels if level not in lookup.skipped]
        down = tuple(level for level in asked if self._has(self._faults.down))
        took = tuple((level, self.lookup_s) for level in asked)
        for level in asked:
            if level not in down:
                names = lookup.names[len(found) :]
                found += [level] * next((i for i, name in enumerate(names) if not self._is_in(level, name)), len(names))
        return LookupAnswer(lookup.lookup_id, tuple(found), down, None if found else self.elsewhere, took)

    def _is_in(self, level: Level, name: bytes) -> bool:
        return name in self._stored[level].blocks

    def _copy(self, fetch: Fetch) -> FetchAnswer:
        self.fetching.difference_update(fetch.block_ids)
        num_arrived, is_down = 0, False
        for name, block_id in zip(fetch.names, fetch.block_ids, strict=True):
            assert self._read(block_id) == (GARBAGE,) * self._block_tokens, "somebody wrote where a fetch writes"
            is_down = self._has(self._faults.down)
            if is_down or self._has(self._faults.gone) or not self._is_in(fetch.level, name):
                break
            self._write(block_id, self._stored[fetch.level].blocks[name])
            num_arrived += 1
        self.num_fetched[fetch.level] += num_arrived
        return FetchAnswer(fetch.fetch_id, num_arrived, self.fetch_s, is_down)

    def _keep(self, save: Save) -> SaveAnswer:
        cells = self._read(save.block_id)
        assert cells == self.saving.pop(save.block_id), "somebody changed a block that is being saved"
        for level, stored in self._stored.items():
            if level not in save.skipped and not self._has(self._faults.dropped):
                assert stored.blocks.setdefault(save.head.name, cells) == cells, "one name for two contents"
        return SaveAnswer((save.block_id,))

    def _has(self, percent: int) -> bool:
        is_hit = bool(percent) and self._random.randrange(100) < percent
        self.num_faults += is_hit
        return is_hit

    def _read(self, block_id: int) -> tuple[bytes, ...]:
        return tuple(self._memory.get((block_id, offset), b"") for offset in range(self._block_tokens))

    def _write(self, block_id: int, cells: tuple[bytes, ...]) -> None:
        for offset, cell in enumerate(cells):
            self._memory[block_id, offset] = cell
