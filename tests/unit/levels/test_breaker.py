"""The circuit breaker of a level: when it asks, when it answers at once, and what it says about it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import LevelFailure, LevelStats, Outdated, StoredBlock, Unreachable
from tailrace.levels.breaker import Breaker, BreakerConfig, BreakerState
from tailrace.levels.delta_log import Deltas
from tailrace.records import EventKind
from tailrace.types import Level
from tests.support.blocks import FINGERPRINT, word

EVERYTHING = Forget(Scope.FINGERPRINT, FINGERPRINT)
CONFIG = BreakerConfig(failures_to_open=3, first_wait_s=1, max_wait_s=8, jitter=0.5, max_owed=4)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Log:
    is_down = False
    num_calls = 0

    def version(self) -> int:
        self.num_calls += 1
        if self.is_down:
            raise LevelFailure("the log is down")
        return 7

    def read(self, since: int) -> Deltas:
        return Deltas(self.version())


class Shaky:
    """A level that fails when told so, and remembers what it was asked."""

    level = Level.REDIS
    told = 0

    def __init__(self) -> None:
        self.is_down = False
        self.failure: type[Exception] = LevelFailure
        self.answer = 1
        self.is_outdated = False
        self.calls: list[str] = []
        self.forgotten: list[Forget] = []
        self.log = Log()

    def _ask(self, what: str) -> int:
        self.calls.append(what)
        if self.is_down:
            raise self.failure("no answer")
        return self.answer

    def contain(self, names: Sequence[bytes]) -> int:
        return self._ask("contain")

    def elsewhere(self, content: bytes) -> None:
        self._ask("elsewhere")

    def get(self, names: Sequence[bytes], into: Sequence[memoryview], before: Sequence[bytes] = ()) -> int:
        return self._ask("get")

    def put(self, blocks: Sequence[StoredBlock], version: int) -> int:
        self._ask("put")
        if self.is_outdated:
            raise Outdated
        return version

    def forget(self, forgets: Sequence[Forget]) -> int:
        self._ask("forget")
        self.forgotten += forgets
        return len(forgets)

    def stats(self) -> LevelStats:
        self._ask("stats")
        return LevelStats(1, 2, 3, 4, 5)

    def close(self) -> None:
        self._ask("close")


@pytest.fixture
def inner() -> Shaky:
    return Shaky()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(inner: Shaky, clock: Clock) -> Breaker:
    return Breaker(inner, EVERYTHING, CONFIG, clock, draw=repeat(0.5).__next__)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.DEBUG):
        yield lambda: [record.getMessage() for record in caplog.records]


def is_well(breaker: Breaker) -> bool:
    return breaker.health.is_well


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        with pytest.raises(LevelFailure, match="no answer"):
            breaker.contain([word(1)])


def test_while_all_is_well_every_call_goes_through(breaker: Breaker, inner: Shaky) -> None:
    assert breaker.level is Level.REDIS
    assert [breaker.contain([word(1)]), breaker.get([word(1)], []), breaker.put([], 5), breaker.forget([])] == [
        1,
        1,
        5,
        0,
    ]
    assert breaker.stats() == LevelStats(1, 2, 3, 4, 5)
    breaker.close()
    assert inner.calls == ["contain", "get", "put", "forget", "stats", "close"]


def test_failures_in_a_row_open_it_and_then_nothing_is_asked(breaker: Breaker, inner: Shaky) -> None:
    inner.is_down = True
    fail(breaker, 2)
    inner.is_down = False
    breaker.get([word(1)], [])  # the row is broken
    inner.is_down = True
    fail(breaker, 3)
    assert breaker.circuit.state is BreakerState.OPEN
    inner.calls.clear()
    calls: list[Callable[[], object]] = [
        lambda: breaker.contain([word(1)]),
        lambda: breaker.get([word(1)], []),
        lambda: breaker.put([], 0),
        breaker.stats,
    ]
    for call in calls:
        with pytest.raises(LevelFailure, match="no answer"):
            call()
    assert inner.calls == []
    assert (breaker.circuit.num_failed, breaker.circuit.num_opened, breaker.circuit.num_refused) == (5, 1, 2)


def test_after_a_wait_one_call_is_tried_and_success_closes_it(breaker: Breaker, inner: Shaky, clock: Clock) -> None:
    inner.is_down = True
    fail(breaker, 3)
    clock.now_s += 1
    inner.is_down = False
    assert breaker.contain([word(1)]) == 1
    assert breaker.circuit.state is BreakerState.CLOSED
    inner.is_down = True
    fail(breaker, 2)
    assert breaker.circuit.state is BreakerState.CLOSED


def test_each_failed_try_doubles_the_wait_up_to_a_bound(breaker: Breaker, inner: Shaky, clock: Clock) -> None:
    inner.is_down = True
    fail(breaker, 3)
    for wait_s in (1, 2, 4, 8, 8, 8):
        clock.now_s += wait_s - 0.001
        asked = len(inner.calls)
        fail(breaker, 1)
        assert len(inner.calls) == asked
        clock.now_s += 0.001
        fail(breaker, 1)
        assert len(inner.calls) == asked + 1
    inner.is_down = False
    clock.now_s += 8
    breaker.contain([word(1)])
    inner.is_down = True
    fail(breaker, 3)
    inner.is_down = False
    clock.now_s += 1  # the first wait again
    assert breaker.contain([word(1)]) == 1


@pytest.mark.parametrize(("drawn", "wait_s"), [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)])
def test_waits_differ_between_hosts(inner: Shaky, clock: Clock, drawn: float, wait_s: float) -> None:
    breaker = Breaker(inner, EVERYTHING, CONFIG, clock, draw=lambda: drawn)
    inner.is_down = True
    fail(breaker, 3)
    inner.is_down = False
    clock.now_s += wait_s - 0.001
    fail(breaker, 1)
    clock.now_s += 0.001
    assert breaker.contain([word(1)]) == 1


def test_one_line_says_that_it_opens_and_one_that_it_closes(
    breaker: Breaker, inner: Shaky, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    inner.is_down = True
    fail(breaker, 50)
    clock.now_s += 1
    fail(breaker, 50)
    assert lines() == ["the redis level is down, requests go on without it: no answer"]
    inner.is_down = False
    clock.now_s += 2
    for _ in range(10):
        breaker.contain([word(1)])
    assert lines()[1:] == ["the redis level works again"]


def fail_to_write(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        with pytest.raises(LevelFailure, match="no answer"):
            breaker.put([], 0)


def test_an_outdated_put_is_an_answer_and_no_failure(breaker: Breaker, inner: Shaky, clock: Clock) -> None:
    inner.is_down = True
    fail_to_write(breaker, 3)
    inner.is_down, inner.is_outdated = False, True
    clock.now_s += 1
    for _ in range(5):
        with pytest.raises(Outdated):
            breaker.put([], 0)
    assert breaker.writes.state is BreakerState.CLOSED


def test_a_level_that_cannot_be_written_to_is_still_read(
    breaker: Breaker, inner: Shaky, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    for _ in range(20):
        inner.is_down = True
        fail_to_write(breaker, 5)
        inner.is_down = False
        assert breaker.contain([word(1)]) == 1
        clock.now_s += 0.04
    assert inner.calls.count("put") == 3
    assert lines() == ["the redis level is read, but nothing can be written to it: no answer"]
    assert not is_well(breaker)
    clock.now_s += 1
    assert breaker.put([], 5) == 5
    assert lines()[1:] == ["the redis level works again"]
    assert is_well(breaker)


def test_a_server_that_writes_alone_find_gone_is_down_as_a_whole_and_back_as_a_whole(
    breaker: Breaker, inner: Shaky, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    inner.is_down, inner.failure, inner.log.is_down = True, Unreachable, True
    log = breaker.log
    assert log is not None
    for _ in range(9):
        with pytest.raises(LevelFailure):
            breaker.put([], 0)
        with pytest.raises(LevelFailure):
            breaker.contain([word(1)])
        with pytest.raises(LevelFailure):
            log.version()
    inner.is_down = inner.log.is_down = False
    clock.now_s += 1
    assert log.version() == 7
    assert not is_well(breaker)
    assert breaker.contain([word(1)]) == 1
    assert is_well(breaker)
    assert breaker.put([], 5) == 5
    assert lines() == ["the redis level is down, requests go on without it: no answer", "the redis level works again"]


def test_what_is_read_again_is_not_said_to_be_written_again(
    breaker: Breaker, inner: Shaky, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    inner.is_down = True
    fail_to_write(breaker, 3)
    fail(breaker, 3)
    inner.is_down = False
    clock.now_s += 1
    assert breaker.contain([word(1)]) == 1
    assert [line.partition(":")[0] for line in lines()] == [
        "the redis level is read, but nothing can be written to it",
        "the redis level is down, requests go on without it",
        "the redis level is read, but nothing can be written to it",
    ]
    assert not is_well(breaker)


def test_a_level_that_lies_is_down(breaker: Breaker, inner: Shaky, lines: Callable[[], list[str]]) -> None:
    inner.answer = 5
    for ask in (breaker.contain, breaker.contain, lambda names: breaker.get(names, [])):
        with pytest.raises(LevelFailure, match="it says that 5 of 1 blocks are there"):
            ask([word(1)])
    assert lines() == [
        "the redis level is down, requests go on without it: it says that 5 of 1 blocks are there",
    ]


def test_a_fault_of_the_level_is_a_failure_like_any_other(breaker: Breaker, inner: Shaky) -> None:
    inner.is_down, inner.failure = True, ZeroDivisionError
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            breaker.contain([word(1)])
    with pytest.raises(LevelFailure, match="ZeroDivisionError, a fault of the level"):
        breaker.contain([word(1)])
    assert not is_well(breaker)


def test_what_could_not_be_forgotten_is_tried_once_more_in_the_end(breaker: Breaker, inner: Shaky) -> None:
    inner.is_down = True
    for _ in range(5):
        with pytest.raises(LevelFailure):
            breaker.forget([Forget(Scope.BLOCK, word(1))])
    inner.is_down = False
    inner.calls.clear()
    breaker.close()
    assert inner.calls == ["forget", "close"]


def test_who_may_not_look_at_the_server_may_still_read_blocks(breaker: Breaker, inner: Shaky) -> None:
    inner.is_down = True
    for _ in range(10):
        with pytest.raises(LevelFailure):
            breaker.stats()
    inner.is_down = False
    assert breaker.contain([word(1)]) == 1


def test_what_could_not_be_forgotten_is_forgotten_before_anything_else(
    breaker: Breaker, inner: Shaky, clock: Clock
) -> None:
    first, second = Forget(Scope.BLOCK, word(1)), Forget(Scope.TENANT, word(2))
    inner.is_down = True
    for forget in (first, second, first):
        with pytest.raises(LevelFailure):
            breaker.forget([forget])
    inner.is_down = False
    inner.calls.clear()
    clock.now_s += 1
    breaker.get([word(1)], [])
    assert inner.calls == ["forget", "get"]
    assert inner.forgotten == [first, second]
    breaker.get([word(1)], [])
    assert inner.calls == ["forget", "get", "get"]


def test_nothing_is_given_out_while_something_is_still_to_be_forgotten(breaker: Breaker, inner: Shaky) -> None:
    inner.is_down = True
    with pytest.raises(LevelFailure):
        breaker.forget([Forget(Scope.BLOCK, word(1))])
    fail(breaker, 1)
    assert inner.calls == ["forget", "forget"]


def test_too_many_things_to_be_forgotten_are_taken_together(breaker: Breaker, inner: Shaky, clock: Clock) -> None:
    inner.is_down = True
    for label in range(5):
        with pytest.raises(LevelFailure):
            breaker.forget([Forget(Scope.BLOCK, word(label))])
    inner.is_down = False
    clock.now_s += 1
    breaker.contain([word(1)])
    assert inner.forgotten == [EVERYTHING]


def test_the_log_has_a_circuit_of_its_own(
    breaker: Breaker, inner: Shaky, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    log = breaker.log
    assert log is not None
    assert (log.version(), log.read(3)) == (7, Deltas(7))
    inner.log.is_down = True
    for _ in range(9):
        with pytest.raises(LevelFailure, match="the log is down"):
            log.read(3)
    assert inner.log.num_calls == 2 + 3
    assert breaker.contain([word(1)]) == 1
    inner.log.is_down = False
    clock.now_s += 1
    assert log.version() == 7
    assert lines() == [
        "the redis level is down, requests go on without it: the log is down",
        "the redis level works again",
    ]


def test_an_operator_hears_when_a_level_goes_down_and_when_it_works_again() -> None:
    clock, shaky, told = Clock(), Shaky(), list[EventKind]()
    breaker = Breaker(shaky, EVERYTHING, CONFIG, clock, tell=lambda kind, _message: told.append(kind))
    shaky.is_down = True
    for _ in range(5):
        with pytest.raises(LevelFailure):
            breaker.contain([word("a")])
    assert told == [EventKind.LEVEL_DOWN]
    shaky.is_down = False
    clock.now_s += 10.0
    assert breaker.contain([word("a")]) == 1
    assert told == [EventKind.LEVEL_DOWN, EventKind.LEVEL_UP]
