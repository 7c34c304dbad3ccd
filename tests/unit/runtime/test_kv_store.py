"""The store over levels that wait, fail and lie. Threads are real, the clock is the test's."""

import itertools
import queue
import threading
from collections.abc import Iterator, Sequence

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
from tailrace.levels.api import BlockLevel, LevelFailure, StoredBlock
from tailrace.levels.breaker import Breaker, BreakerConfig
from tailrace.runtime.kv_store import KvStore, KvStoreConfig
from tailrace.runtime.level_worker import LevelWorker
from tailrace.runtime.staging import StagedBlock
from tailrace.types import Level
from tests.support.memory_level import MemoryLevel

BLOCK_BYTES = 64
WAIT_S = 20.0
EVERYTHING = Forget(Scope.FINGERPRINT, b"fingerprint")


def name(number: int) -> bytes:
    return number.to_bytes(16, "little")


def head(number: int, tenant: bytes = b"tenant") -> BlockHead:
    return BlockHead(name(number), name(number - 1) if number else b"root", tenant, b"fingerprint", b"")


def contents(number: int) -> bytes:
    return bytes([number % 251]) * BLOCK_BYTES


class Bench:
    """A store over memory levels, and a pool of 32 blocks."""

    def __init__(self, *levels: BlockLevel, staging_blocks: int = 16, bounce_blocks: int = 2) -> None:
        self.levels = levels
        self.now_s = 0.0
        self.pool = np.zeros((32, BLOCK_BYTES), np.uint8)
        self._woken = queue.SimpleQueue[None]()
        self._answers: list[StoreAnswer] = []
        config = KvStoreConfig(
            deadlines_s=dict.fromkeys(Level, 0.1),
            staging_bytes=staging_blocks * BLOCK_BYTES,
            bounce_bytes=bounce_blocks * BLOCK_BYTES,
            close_s=WAIT_S,
        )
        self.store = KvStore(
            levels, self.pool, lambda: self._woken.put(None), EVERYTHING, config=config, clock=lambda: self.now_s
        )

    def answer(self) -> StoreAnswer:
        """The next answer, waited for."""
        while not self._answers:
            self._answers += self.store.take()
            if not self._answers:
                self._woken.get(timeout=WAIT_S)
        return self._answers.pop(0)

    def take_now(self) -> list[StoreAnswer]:
        answers, self._answers = [*self._answers, *self.store.take()], []
        return answers

    def fill(self, block_id: int, number: int) -> None:
        self.pool[block_id] = np.frombuffer(contents(number), np.uint8)

    def save(self, *numbers: int) -> int:
        """Save blocks that lie at the place of their number."""
        for number in numbers:
            self.fill(number, number)
        return self.store.save(tuple(Save(head(number), number) for number in numbers))

    def look_up(self, *numbers: int, lookup_id: int = 1) -> None:
        self.store.look_up(Lookup(lookup_id, tuple(map(name, numbers)), name(numbers[0]) if numbers else b""))

    def fetch(self, level: Level, numbers: list[int], block_ids: list[int], fetch_id: int = 1) -> None:
        self.store.fetch(Fetch(fetch_id, level, tuple(map(name, numbers)), tuple(block_ids)))

    def settle(self) -> None:
        """Until all levels have done what they were told: each has then answered a lookup."""
        self.look_up(999, lookup_id=999)
        while not isinstance(self.answer(), LookupAnswer):
            pass

    def row(self, block_id: int) -> bytes:
        return bytes(self.pool[block_id])


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def keep(level: MemoryLevel, *numbers: int) -> None:
    for number in numbers:
        level.blocks[name(number)] = head(number), contents(number)


@pytest.fixture
def host() -> MemoryLevel:
    return MemoryLevel(Level.HOST)


@pytest.fixture
def disk() -> MemoryLevel:
    return MemoryLevel(Level.DISK)


@pytest.fixture
def bench(host: MemoryLevel, disk: MemoryLevel) -> Iterator[Bench]:
    bench = Bench(host, disk)
    yield bench
    for level in (host, disk):
        level.recover()
    bench.store.close()


def test_a_lookup_asks_each_level_for_what_the_one_before_lacks(
    bench: Bench, host: MemoryLevel, disk: MemoryLevel
) -> None:
    keep(host, 1, 2, 5)
    keep(disk, 1, 3, 4)
    bench.look_up(1, 2, 3, 4, 5)
    assert bench.answer() == LookupAnswer(1, (Level.HOST, Level.HOST, Level.DISK, Level.DISK))


def test_a_level_that_has_everything_spares_the_others(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    keep(host, 1, 2)
    bench.look_up(1, 2)
    assert bench.answer() == LookupAnswer(1, (Level.HOST, Level.HOST))
    assert disk.calls == []


def test_a_failing_level_is_passed_over_and_told_to_be_down(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    keep(disk, 1)
    host.fail()
    bench.look_up(1)
    assert bench.answer() == LookupAnswer(1, (Level.DISK,), (Level.HOST,))


def test_a_lying_level_is_down(bench: Bench, host: MemoryLevel) -> None:
    host.overstated = 3
    bench.look_up(1)
    assert bench.answer() == LookupAnswer(1, (), (Level.HOST,))
    bench.fetch(Level.HOST, [1], [7])
    answer = bench.answer()
    assert isinstance(answer, FetchAnswer)
    assert (answer.num_arrived, answer.is_down) == (0, True)
    assert bench.row(7) == bytes(BLOCK_BYTES)


def test_a_bug_in_a_level_is_a_failure_like_any_other(
    bench: Bench, host: MemoryLevel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: str) -> None:
        raise ZeroDivisionError(call)

    host.before = broken
    bench.look_up(1)
    assert bench.answer() == LookupAnswer(1, (), (Level.HOST,))
    bench.store.close()
    assert "ZeroDivisionError" in caplog.text


def test_a_bug_that_comes_again_and_again_does_not_fill_the_log(
    bench: Bench, host: MemoryLevel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: str) -> None:
        raise ZeroDivisionError(call)

    host.before = broken
    for lookup_id in range(20):
        bench.look_up(1, lookup_id=lookup_id)
        bench.answer()
    bench.store.close()
    assert len(caplog.records) == 1


def test_a_level_behind_a_breaker_works_again_when_what_failed_succeeds(
    host: MemoryLevel, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = itertools.count()  # no wait is longer than from one call to the next
    config = BreakerConfig(failures_to_open=1, first_wait_s=0.5, max_wait_s=0.5)
    bench = Bench(Breaker(host, EVERYTHING, config, clock=lambda: next(seconds)))
    host.fail("put")
    bench.save(1)
    bench.answer()
    bench.settle()
    bench.settle()
    assert messages(caplog) == ["the host level is read, but nothing can be written to it: put: no connection"]
    assert [report.is_working for report in bench.store.report()] == [False]
    host.recover()
    bench.save(2)
    bench.answer()
    bench.settle()
    bench.settle()
    assert messages(caplog)[1:] == ["the host level works again"]
    assert [report.is_working for report in bench.store.report()] == [True]
    bench.store.close()


def test_a_long_fetch_lets_others_have_their_turn(bench: Bench, host: MemoryLevel) -> None:
    keep(host, *range(1, 11))
    gate = host.hold("get")
    bench.fetch(Level.HOST, list(range(1, 11)), list(range(1, 11)))
    gate.await_arrival()
    bench.look_up(1)
    gate.open()
    assert bench.answer() == LookupAnswer(1, (Level.HOST,))
    answer = bench.answer()
    assert isinstance(answer, FetchAnswer)
    assert answer.num_arrived == 10


def test_a_lookup_that_takes_too_long_goes_on_to_the_next_level(
    bench: Bench, host: MemoryLevel, disk: MemoryLevel
) -> None:
    keep(host, 1)
    keep(disk, 1)
    gate = host.hold("contain")
    bench.look_up(1)
    gate.await_arrival()
    assert bench.store.due_s == pytest.approx(0.1)
    assert bench.take_now() == []
    bench.now_s = 0.2
    assert bench.answer() == LookupAnswer(1, (Level.DISK,), (Level.HOST,))
    assert bench.store.due_s is None

    bench.look_up(1, lookup_id=2)
    assert bench.answer() == LookupAnswer(2, (Level.DISK,), (Level.HOST,))  # at once: it is known to be stuck
    gate.open()
    host.recover()


def test_levels_that_a_lookup_skips_are_not_asked(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    keep(host, 1)
    keep(disk, 1, 2)
    bench.store.look_up(Lookup(1, (name(1), name(2)), None, skipped=frozenset({Level.HOST})))
    assert bench.answer() == LookupAnswer(1, (Level.DISK, Level.DISK))
    bench.store.look_up(Lookup(2, (name(1),), None, skipped=frozenset({Level.HOST, Level.DISK})))
    assert bench.answer() == LookupAnswer(2, ())
    assert "contain" not in host.calls
    assert "elsewhere" not in disk.calls


def test_it_is_told_which_levels_were_asked_and_how_long_each_took(
    bench: Bench, host: MemoryLevel, disk: MemoryLevel
) -> None:
    gate = host.hold("contain")
    bench.look_up(1)
    gate.await_arrival()
    bench.now_s = 0.2
    answer = bench.answer()
    assert isinstance(answer, LookupAnswer)
    assert answer.asked == ((Level.HOST, 0.2), (Level.DISK, 0.0))
    gate.open()


def test_a_lookup_without_patience_left_asks_nobody(bench: Bench) -> None:
    bench.store.look_up(Lookup(1, (name(1),), None, patience_s=0.0))
    answer = bench.answer()
    assert answer == LookupAnswer(1, (), (Level.HOST, Level.DISK))
    assert isinstance(answer, LookupAnswer)
    assert answer.asked == ()


def test_a_save_goes_to_the_levels_that_are_to_have_it(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    bench.fill(1, 1)
    bench.fill(2, 2)
    skipped = frozenset({Level.DISK})
    assert bench.store.save((Save(head(1), 1, skipped), Save(head(2), 2))) == 2
    bench.settle()
    bench.store.close()
    assert set(host.blocks) == {name(1), name(2)}
    assert set(disk.blocks) == {name(2)}
    assert [report.num_dropped_blocks for report in bench.store.report()] == [0, 0]


def test_a_lookup_is_waited_for_no_longer_than_its_patience(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    keep(disk, 1)
    gate = host.hold("contain")
    bench.store.look_up(Lookup(1, (name(1),), b"", patience_s=0.03))
    gate.await_arrival()
    assert bench.store.due_s == 0.03
    bench.now_s = 0.04
    assert bench.answer() == LookupAnswer(1, (), (Level.HOST, Level.DISK))
    assert disk.calls.count("contain") == 0
    gate.open()


def test_what_a_late_level_says_is_not_listened_to(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1)
    gate = host.hold("contain")
    bench.look_up(1)
    gate.await_arrival()
    bench.now_s = 0.2
    assert bench.answer() == LookupAnswer(1, (), (Level.HOST,))
    gate.open()
    bench.look_up(1, lookup_id=2)
    while (answer := bench.answer()) != LookupAnswer(2, (Level.HOST,)):
        assert answer == LookupAnswer(2, (), (Level.HOST,))  # its thread was not through yet
        bench.look_up(1, lookup_id=2)


def test_blocks_are_fetched_into_the_rows_that_were_named(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1, 2, 3, 4, 5)
    bench.fetch(Level.HOST, [1, 2, 3, 4, 5], [20, 9, 31, 0, 4])
    answer = bench.answer()
    assert isinstance(answer, FetchAnswer)
    assert (answer.num_arrived, answer.is_down) == (5, False)
    assert [bench.row(block_id) for block_id in (20, 9, 31, 0, 4)] == [contents(number) for number in range(1, 6)]
    assert not bench.pool[[1, 2, 3, 5, 8]].any()


def test_a_fetch_is_waited_for_no_longer_than_its_patience(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1)
    gate = host.hold("get")
    bench.store.fetch(Fetch(1, Level.HOST, (name(1),), (5,), patience_s=0.03))
    gate.await_arrival()
    assert bench.store.due_s == 0.03
    bench.now_s = 0.04
    assert bench.answer() == FetchAnswer(1, 0, 0.04, is_down=True)
    gate.open()


def test_a_level_is_told_what_lies_before_the_blocks_it_is_asked_for(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 3, 4, 5)
    names = tuple(map(name, (3, 4, 5)))
    bench.store.fetch(Fetch(1, Level.HOST, names, (3, 4, 5), before=(name(1), name(2))))
    bench.answer()
    assert host.before_names == tuple(map(name, (1, 2, 3, 4)))  # two blocks at a time


@pytest.mark.parametrize("num_there", range(5))
def test_a_fetch_ends_with_the_first_block_that_is_gone(bench: Bench, host: MemoryLevel, num_there: int) -> None:
    keep(host, *range(1, 6))
    del host.blocks[name(num_there + 1)]
    bench.fetch(Level.HOST, [1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    answer = bench.answer()
    assert isinstance(answer, FetchAnswer)
    assert (answer.num_arrived, answer.is_down) == (num_there, False)
    assert not bench.pool[num_there + 1 :].any()


def test_a_fetch_that_is_given_up_never_writes_to_the_pool(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1, 2)
    gate = host.hold("get")
    bench.fetch(Level.HOST, [1, 2], [5, 6])
    gate.await_arrival()
    bench.now_s = 0.2
    answer = bench.answer()
    assert isinstance(answer, FetchAnswer)
    assert (answer.num_arrived, answer.is_down) == (0, True)

    bench.fill(5, 42)  # it belongs to somebody else by now
    gate.open()
    host.recover()
    while True:  # until its thread is through
        bench.look_up(1, lookup_id=7)
        if bench.answer() == LookupAnswer(7, (Level.HOST,)):
            break
    assert bench.row(5) == contents(42)
    assert not bench.pool[6].any()


def test_what_came_before_a_failure_counts(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1, 2, 3)

    def second_fails(call: str) -> None:
        if host.calls.count("get") == 2:
            raise ConnectionError(call)

    host.before = second_fails
    bench.fetch(Level.HOST, [1, 2, 3], [1, 2, 3])
    answer = bench.answer()
    assert isinstance(answer, FetchAnswer)
    assert (answer.num_arrived, answer.is_down) == (2, True)
    assert not bench.pool[3].any()


def test_saves_go_to_every_level_and_free_their_rows_at_once(
    bench: Bench, host: MemoryLevel, disk: MemoryLevel
) -> None:
    gates = host.hold("put"), disk.hold("put")
    assert bench.save(1, 2) == 2
    saved = bench.answer()
    assert saved == SaveAnswer((1, 2))
    bench.pool[:] = 99  # whatever others write there by now
    for gate in gates:
        gate.open()
    bench.settle()
    for level in (host, disk):
        level.recover()
    bench.settle()
    for level in (host, disk):
        assert {stored: data for stored, (_, data) in level.blocks.items()} == {
            name(1): contents(1),
            name(2): contents(2),
        }


def test_what_does_not_fit_is_refused_and_counted(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    gates = host.hold("put"), disk.hold("put")
    assert bench.save(*range(20)) == 16
    bench.answer()
    for gate in gates:
        gate.open()
    bench.settle()
    reports = {report.level: report for report in bench.store.report()}
    for report in reports.values():
        assert report.num_saved_blocks + report.num_dropped_blocks == 20
        assert report.num_dropped_blocks >= 4


def test_a_stuck_level_leaves_room_for_the_others(host: MemoryLevel, disk: MemoryLevel) -> None:
    bench = Bench(host, disk, staging_blocks=12)
    gate = disk.hold("put")
    bench.save(0)
    bench.answer()
    gate.await_arrival()
    bench.now_s = 1.0  # from now on it is known to be stuck
    for number in range(1, 30):
        assert bench.save(number) == 1
        assert bench.answer() == SaveAnswer((number,))
        bench.look_up(number)
        while bench.answer() != LookupAnswer(1, (Level.HOST,)):  # written there
            bench.look_up(number)
    gate.open()
    bench.store.close()
    assert len(host.blocks) == 30
    assert len(disk.blocks) < 30


def test_a_level_that_does_not_write_costs_no_slot(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    host.fail()
    disk.fail()
    for number in range(30):
        while bench.save(number) != 1:
            bench.settle()
        while not isinstance(bench.answer(), SaveAnswer):
            pass


def test_what_is_forgotten_is_gone_and_is_not_written_later(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    keep(host, 1, 2)
    gate = disk.hold("put")
    bench.save(1)
    bench.answer()
    gate.await_arrival()
    bench.save(2)
    bench.answer()
    bench.store.forget((Forget(Scope.TENANT, b"tenant"),))
    gate.open()
    bench.settle()
    assert host.blocks == {}
    assert disk.blocks == {}


def test_a_level_that_cannot_forget_gives_nothing_until_it_has(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1, 2)
    host.fail()
    bench.store.forget((Forget(Scope.BLOCK, name(1)),))
    bench.look_up(1)
    assert bench.answer() == LookupAnswer(1, (), (Level.HOST,))
    host.recover()
    bench.look_up(2, lookup_id=2)
    assert bench.answer() == LookupAnswer(2, (Level.HOST,))
    assert name(1) not in host.blocks


def test_closing_makes_up_for_what_a_level_could_not_forget(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1, 2)
    host.fail("forget")
    bench.store.forget((Forget(Scope.BLOCK, name(1)),))
    bench.settle()
    host.recover()
    bench.store.close()
    assert host.blocks.keys() == {name(2)}


def test_a_level_that_could_not_forget_is_asked_again_though_nobody_comes(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1, 2)
    is_first = iter([True])
    has_forgotten = threading.Event()

    def fail_once(call: str) -> None:
        if call == "forget":
            if next(is_first, False):
                raise LevelFailure("no connection")
            has_forgotten.set()

    host.before = fail_once
    bench.store.forget((Forget(Scope.BLOCK, name(1)),))
    assert has_forgotten.wait(WAIT_S)
    bench.settle()
    assert host.blocks.keys() == {name(2)}


def test_what_a_level_has_yet_to_forget_is_counted(bench: Bench, host: MemoryLevel) -> None:
    gate = host.hold("forget")
    bench.store.forget((Forget(Scope.BLOCK, name(1)),))
    gate.await_arrival()
    bench.store.forget((Forget(Scope.BLOCK, name(1)), Forget(Scope.BLOCK, name(2))))
    assert [report.num_forgets_pending for report in bench.store.report() if report.level is Level.HOST] == [3]
    gate.open()
    bench.settle()
    assert [report.num_forgets_pending for report in bench.store.report()] == [0] * len(bench.store.levels)


def test_too_many_forgets_become_one_for_everything(bench: Bench, host: MemoryLevel) -> None:
    keep(host, *range(30))
    host.fail()
    bench.store.forget(tuple(Forget(Scope.BLOCK, name(number)) for number in range(1000, 20_000)))
    host.recover()
    bench.look_up(1)
    assert bench.answer() == LookupAnswer(1, ())
    assert host.blocks == {}


def test_what_is_forgotten_on_its_way_to_a_level_is_not_written() -> None:
    level, staged = MemoryLevel(Level.DISK), StagedBlock(head(1), 0, {})

    def write(level: BlockLevel, blocks: Sequence[StagedBlock]) -> int:
        return level.put([StoredBlock(block.head, memoryview(contents(1))) for block in blocks], 0)

    class Held(LevelWorker):
        """Between taking a block and writing it, somebody forgets it."""

        def ready(self) -> BlockLevel:
            if not level.calls.count("put") and not self.drop_saves(lambda block: block is staged):
                self.forget([Forget(Scope.BLOCK, name(1))])
            return super().ready()

    done = threading.Event()
    worker = Held(
        level, write, lambda _: done.set(), everything=EVERYTHING, max_saves=8, deadline_s=1.0, clock=lambda: 0.0
    )
    assert worker.save(staged)
    worker.start()
    assert done.wait(WAIT_S)
    worker.close()
    worker.join(WAIT_S)
    assert level.blocks == {}


def test_what_is_forgotten_while_a_level_forgets_the_same_is_forgotten_again(bench: Bench, host: MemoryLevel) -> None:
    gate = host.hold("forget")
    for _ in range(2):
        bench.store.forget((Forget(Scope.BLOCK, name(1)),))
        gate.await_arrival()
    gate.open()
    bench.settle()
    assert host.calls.count("forget") == 2


def test_forgets_that_wait_for_a_level_leave_room_for_what_else_waits(bench: Bench, host: MemoryLevel) -> None:
    keep(host, 1)
    gate = host.hold("contain")
    bench.look_up(2)
    gate.await_arrival()
    for _ in range(5_000):
        bench.store.forget((Forget(Scope.BLOCK, name(7)),))
    bench.look_up(1, lookup_id=2)
    gate.open()
    assert LookupAnswer(2, (Level.HOST,)) in [bench.answer(), bench.answer()]


def test_closing_writes_what_was_taken_and_closes_the_levels(host: MemoryLevel, disk: MemoryLevel) -> None:
    bench = Bench(host, disk)
    assert bench.save(1, 2, 3) == 3
    bench.store.close()
    assert len(host.blocks) == len(disk.blocks) == 3
    assert host.is_closed.is_set()
    assert disk.is_closed.is_set()
    assert bench.save(4) == 0
    bench.look_up(1)
    assert bench.answer() == SaveAnswer((1, 2, 3))
    assert bench.answer() == LookupAnswer(1, (), (Level.HOST, Level.DISK))


def test_closing_does_not_wait_for_a_stuck_level(host: MemoryLevel) -> None:
    bench = Bench(host)
    bench.store._close_s = 0.01
    gate = host.hold("contain")
    bench.look_up(1)
    gate.await_arrival()
    bench.store.close()
    assert not host.is_closed.is_set()
    gate.open()
    assert host.is_closed.wait(WAIT_S)


def test_what_levels_do_is_counted(bench: Bench, host: MemoryLevel, disk: MemoryLevel) -> None:
    keep(host, 1, 2)
    bench.fetch(Level.HOST, [1, 2], [1, 2])
    bench.answer()
    bench.save(3)
    bench.answer()
    disk.fail()
    bench.settle()
    bench.settle()
    by_level = {report.level: report for report in bench.store.report()}
    assert by_level[Level.HOST].num_fetched_blocks == 2
    assert by_level[Level.HOST].num_failures == 0
    assert by_level[Level.DISK].num_failures >= 1
    assert by_level[Level.HOST].num_saved_blocks == 1


def test_a_run_that_does_not_begin_is_asked_for_under_other_names(bench: Bench, host: MemoryLevel) -> None:
    elsewhere = head(5)._replace(name=name(1), content=name(7))
    host.blocks[name(1)] = elsewhere, contents(1)
    bench.look_up(7, 8)
    assert bench.answer() == LookupAnswer(1, (), (), elsewhere)
    bench.look_up(1, 8, lookup_id=2)
    assert bench.answer() == LookupAnswer(2, (Level.HOST,))
