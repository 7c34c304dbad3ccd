import random
from collections.abc import Callable

import pytest

from tailrace.frontends.http.resume.store import Entry, Kept, ResumeStore

ID, KEY = b"i" * 16, b"k" * 16
MIB = 2**20


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def stores(clock: Clock, num_bytes: int = MIB, num_owners: int = 1) -> Callable[[int], ResumeStore]:
    """Makes the store of an owner, as often as it starts."""
    memory = memoryview(bytearray(num_bytes))
    return lambda owner: ResumeStore(memory, owner=owner, num_owners=num_owners, clock=clock)


def create(store: ResumeStore, stream_id: bytes = ID, head: bytes = b"head", epoch: int = 0) -> Entry:
    entry = store.create(stream_id, KEY, head, epoch=epoch)
    assert entry is not None
    return entry


def words_of(store: ResumeStore, stream_id: bytes = ID) -> list[int] | None:
    kept = store.find(stream_id, KEY)
    return None if kept is None else list(kept.words)


@pytest.mark.parametrize("num_words", [0, 1, 1022, 1023, 1024, 5000])
@pytest.mark.parametrize("num_bytes", [0, 1, 4092, 4093, 100_000])
def test_what_one_process_keeps_every_other_finds(num_words: int, num_bytes: int, clock: Clock) -> None:
    of = stores(clock, num_owners=2)
    head = random.Random(num_bytes).randbytes(num_bytes)
    create(of(0), head=head).add(range(num_words))
    kept = of(1).find(ID, KEY)
    assert kept is not None
    assert (kept.head, list(kept.words), kept.is_expired) == (head, list(range(num_words)), False)


def test_another_key_or_id_finds_nothing(clock: Clock) -> None:
    store = stores(clock)(0)
    create(store)
    assert store.find(ID, b"x" * 16) is None
    assert store.find(b"x" * 16, KEY) is None
    assert store.find(KEY, KEY) is None, "an id is looked for where ids are"


def test_a_stream_is_kept_for_a_minute_after_its_end(clock: Clock) -> None:
    store = stores(clock)(0)
    entry = create(store)
    clock.now += 1000
    assert not _found(store).is_expired, "it runs"
    entry.end()
    clock.now += 60
    assert not _found(store).is_expired
    clock.now += 0.1
    assert _found(store).is_expired
    create(store, b"j" * 16)
    assert store.find(ID, KEY) is None
    assert store.num_kept == 1


def _found(store: ResumeStore) -> Kept:
    kept = store.find(ID, KEY)
    assert kept is not None
    return kept


def test_the_last_epoch_counts_and_the_one_before_is_told(clock: Clock) -> None:
    of = stores(clock, num_owners=2)
    first, other = of(0), of(1)
    before = create(first)
    before.add([1, 2])
    after = create(other, epoch=1)
    other.take_over(ID, 1)
    after.add([1, 2, 3])
    assert before.is_taken_over
    assert not after.is_taken_over
    assert words_of(first) == [1, 2, 3]


def test_what_a_dead_owner_has_left_is_kept_on_from_when_the_next_one_starts(clock: Clock) -> None:
    of = stores(clock, num_owners=2)
    create(of(0), head=b"h" * 9000).add(range(3000))
    clock.now += 500
    heir = of(0)
    assert words_of(heir) == list(range(3000))
    num_free = heir.blocks.num_free
    create(heir, b"j" * 16, b"x" * 9000).add([7])
    assert words_of(heir) == list(range(3000)), "none of its blocks was given away"
    clock.now += 61
    create(heir, b"l" * 16)
    assert words_of(heir) is None
    assert heir.blocks.num_free == num_free + 3 + 3 - 4 - 2, "three blocks of a head and of words, and what is new"


def test_who_ended_first_makes_room_and_who_runs_does_not(clock: Clock) -> None:
    store = stores(clock, num_bytes=64 * 1024)(0)  # four slots, 15 blocks
    ids = [bytes([place]) * 16 for place in range(6)]
    running, *ended = [create(store, each) for each in ids[:4]]
    running.add([1])
    for entry in (ended[1], ended[0], ended[2]):
        entry.end()
    create(store, ids[4]).add([5])
    assert [store.find(each, KEY) is not None for each in ids[:5]] == [True, True, False, True, True]
    create(store, ids[5], b"x" * 4092 * 10)
    assert [store.find(each, KEY) is not None for each in ids] == [True, False, False, False, True, True]
    assert store.create(b"y" * 16, KEY, b"x" * 4092 * 10) is None, "all that is left runs"
    assert words_of(store, ids[0]) == [1]


def test_a_stream_that_finds_no_more_room_is_forgotten_and_goes_on(clock: Clock) -> None:
    store = stores(clock, num_bytes=64 * 1024)(0)
    entry = create(store)
    entry.add(range(100_000))
    entry.add([1])
    entry.end()
    assert store.find(ID, KEY) is None
    assert store.num_kept == 0
    assert store.blocks.num_free == len(store.blocks)


def test_too_little_memory_is_said(clock: Clock) -> None:
    with pytest.raises(ValueError, match="too few for 8 owners"):
        stores(clock, num_bytes=64 * 1024, num_owners=8)(0)


class Traffic:
    """Two owners of one store, with what each should have of the streams that run."""

    def __init__(self, seed: int) -> None:
        self.draw, self.clock = random.Random(seed), Clock()
        self.of = stores(self.clock, num_bytes=512 * 1024, num_owners=2)
        self.owners = [self.of(0), self.of(1)]
        self.running: list[dict[bytes, tuple[Entry, list[int]]]] = [{}, {}]

    def create(self, owner: int) -> None:
        if len(self.running[owner]) < 4:
            stream_id, head = self.draw.randbytes(16), self.draw.randbytes(self.draw.randrange(9000))
            self.running[owner][stream_id] = (create(self.owners[owner], stream_id, head), [])

    def add(self, owner: int) -> None:
        for entry, words in self.running[owner].values():
            if len(words) < 2500:
                new = [self.draw.randrange(2**31) for _ in range(self.draw.randrange(500))]
                entry.add(new)
                words.extend(new)

    def end(self, owner: int) -> None:
        if self.running[owner]:
            self.running[owner].pop(self.draw.choice(list(self.running[owner])))[0].end()

    def wait(self, owner: int) -> None:
        self.clock.now += self.draw.random() * 40

    def die(self, owner: int) -> None:
        self.owners[owner] = self.of(owner)
        self.running[owner].clear()

    def check(self) -> None:
        for entries in self.running:
            for stream_id, (_, words) in entries.items():
                assert words_of(self.draw.choice(self.owners), stream_id) == words


@pytest.mark.parametrize("seed", range(10))
def test_owners_that_come_and_go_lose_nothing_and_leak_nothing(seed: int) -> None:
    traffic = Traffic(seed)
    num_free = [store.blocks.num_free for store in traffic.owners]
    moves = [traffic.create, traffic.add, traffic.add, traffic.end, traffic.wait, traffic.die]
    for _ in range(300):
        traffic.draw.choice(moves)(traffic.draw.randrange(2))
        traffic.check()
    for owner in (0, 1):
        while traffic.running[owner]:
            traffic.end(owner)
    traffic.clock.now += 61
    for store in traffic.owners:
        create(store, traffic.draw.randbytes(16))
    assert [store.blocks.num_free for store in traffic.owners] == [num - 2 for num in num_free]
