"""Random traffic through the store, with real threads and levels that wait, fail and lie at random.

Whatever levels do: each lookup, fetch and save is answered once, a fetched row holds the block it was asked for, a row
that is not being fetched is never touched, and what lies in a level is what was saved.
"""

import queue
import time
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import (
    BlockHead,
    Fetch,
    FetchAnswer,
    Lookup,
    LookupAnswer,
    Save,
    SaveAnswer,
    StoreAnswer,
)
from tailrace.runtime.kv_store import KvStore, KvStoreConfig
from tailrace.types import Level
from tests.support.memory_level import MemoryLevel, RandomFaults

BLOCK_BYTES = 4096
NUM_BLOCKS = 48
NUM_NAMES = 40
LEVELS = (Level.HOST, Level.DISK, Level.REDIS)
WAIT_S = 20.0


def name(number: int) -> bytes:
    return number.to_bytes(16, "little")


def contents(number: int) -> bytes:
    """Of the block of this name: different at every place, so that no half of one passes for another."""
    return np.random.default_rng(number).bytes(BLOCK_BYTES)


CONTENTS = [contents(number) for number in range(NUM_NAMES)]


class Traffic:
    """The engine's side: knows who owns each row, and what is in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.levels = [MemoryLevel(level) for level in LEVELS]
        for number, level in enumerate(self.levels):
            RandomFaults(level, seed * 10 + number)
        self.pool = np.zeros((NUM_BLOCKS, BLOCK_BYTES), np.uint8)
        self.expected = {block_id: bytes(BLOCK_BYTES) for block_id in range(NUM_BLOCKS)}  # rows that nobody fetches to
        self.saving: set[int] = set()
        self.fetches: dict[int, Fetch] = {}
        self.lookups: dict[int, Lookup] = {}
        self.num_arrived = 0
        self._woken = queue.SimpleQueue[None]()
        self._next_id = 0
        config = KvStoreConfig(
            deadlines_s=dict.fromkeys(LEVELS, 0.005),
            staging_bytes=12 * BLOCK_BYTES,
            bounce_bytes=3 * BLOCK_BYTES,
            close_s=WAIT_S,
        )
        everything = Forget(Scope.FINGERPRINT, b"fingerprint")
        self.store = KvStore(self.levels, self.pool, lambda: self._woken.put(None), everything, config=config)

    def act(self) -> None:
        self.random.choice([self.look_up, self.fetch, self.fetch, self.save, self.save, self.take, self.write])()

    def look_up(self) -> None:
        first = self.random.randrange(NUM_NAMES)
        lookup = Lookup(self._number(), tuple(map(name, range(first, NUM_NAMES))), b"")
        self.lookups[lookup.lookup_id] = lookup
        self.store.look_up(lookup)

    def fetch(self) -> None:
        block_ids = self._idle_rows(self.random.randint(1, 10))
        if not block_ids:
            return
        first = self.random.randrange(NUM_NAMES - len(block_ids) + 1)
        self._fetch(self.random.choice(LEVELS), range(first, first + len(block_ids)), block_ids)

    def fetch_one(self, level: Level, number: int) -> None:
        self._fetch(level, [number], self._idle_rows(1))

    def _fetch(self, level: Level, numbers: Iterable[int], block_ids: Sequence[int]) -> None:
        fetch = Fetch(self._number(), level, tuple(map(name, numbers)), tuple(block_ids))
        for block_id in block_ids:
            del self.expected[block_id]
        self.fetches[fetch.fetch_id] = fetch
        self.store.fetch(fetch)

    def save(self) -> None:
        saves = []
        for block_id in self._idle_rows(self.random.randint(1, 6)):
            number = self.random.randrange(NUM_NAMES)
            self._fill(block_id, CONTENTS[number])
            head = BlockHead(name(number), name(number - 1) if number else b"root", b"tenant", b"fingerprint", b"")
            saves.append(Save(head, block_id))
        if saves:
            taken = self.store.save(tuple(saves))
            self.saving.update(save.block_id for save in saves[:taken])

    def write(self) -> None:
        """A step computes: rows that nobody fetches to or saves from get new contents."""
        for block_id in self._idle_rows(8):
            self._fill(block_id, self.random.randbytes(BLOCK_BYTES))

    def take(self) -> None:
        for answer in self.store.take():
            self._absorb(answer)

    def settle(self) -> None:
        """Wait for everything that is under way."""
        while self.lookups or self.fetches or self.saving:
            self.take()
            if self.lookups or self.fetches or self.saving:
                due_s = self.store.due_s
                timeout_s = WAIT_S if due_s is None else max(due_s - time.monotonic(), 0.0)
                try:
                    self._woken.get(timeout=timeout_s)
                except queue.Empty:
                    assert due_s is not None, "somebody is never answered"

    def recover(self) -> None:
        """Levels that work again give what they have."""
        self.settle()
        for level in self.levels:
            level.recover()
            before = self.num_arrived
            while level.blocks and self.num_arrived == before:
                self.fetch_one(level.level, int.from_bytes(next(iter(level.blocks)), "little"))
                self.settle()

    def check(self) -> None:
        for block_id, expected in self.expected.items():
            assert self.pool[block_id].tobytes() == expected, f"row {block_id} was touched"
        for level in self.levels:
            for stored, (head, data) in list(level.blocks.items()):
                assert stored == head.name
                assert data == CONTENTS[int.from_bytes(stored, "little")], f"{level.level} has a wrong block"

    def _absorb(self, answer: StoreAnswer) -> None:
        match answer:
            case LookupAnswer(lookup_id, levels, _):
                assert len(levels) <= len(self.lookups.pop(lookup_id).names)
            case FetchAnswer():
                self._landed(self.fetches.pop(answer.fetch_id), answer)
            case SaveAnswer(block_ids):
                self.saving.difference_update(block_ids)
            case _:
                raise AssertionError(answer)

    def _landed(self, fetch: Fetch, answer: FetchAnswer) -> None:
        self.num_arrived += answer.num_arrived
        for place, block_id in enumerate(fetch.block_ids):
            if place < answer.num_arrived:
                self.expected[block_id] = CONTENTS[int.from_bytes(fetch.names[place], "little")]
                assert self.pool[block_id].tobytes() == self.expected[block_id]
            else:
                self._fill(block_id, self.random.randbytes(BLOCK_BYTES))  # it is somebody else's at once

    def _idle_rows(self, count: int) -> list[int]:
        idle = sorted(self.expected.keys() - self.saving)
        return self.random.sample(idle, min(count, len(idle)))

    def _fill(self, block_id: int, data: bytes) -> None:
        self.pool[block_id] = np.frombuffer(data, np.uint8)
        self.expected[block_id] = data

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id


@pytest.mark.parametrize("seed", range(6))
def test_whatever_levels_do_no_row_is_wrong_and_nobody_waits_for_ever(seed: int) -> None:
    traffic = Traffic(seed)
    for round_number in range(30):
        for _ in range(20):
            traffic.act()
        if round_number % 3 == 0:
            traffic.settle()
        traffic.take()
        traffic.check()
    traffic.recover()
    traffic.store.close()
    traffic.check()
