"""What others forget on a shared level, on its way to the engine and to the levels that are not told by them."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead, ForgetNotice, Lookup, LookupAnswer, Save, SaveAnswer, StoreAnswer
from tailrace.runtime.kv_store import KvStore, KvStoreConfig
from tailrace.types import Level
from tests.support.memory_level import MemoryLevel, MemoryLog

BLOCK_BYTES = 64
WAIT_S = 20.0
EVERYTHING = Forget(Scope.FINGERPRINT, b"fingerprint")


def name(number: int) -> bytes:
    return number.to_bytes(16, "little")


def head(number: int) -> BlockHead:
    return BlockHead(name(number), name(number - 1), b"tenant", b"fingerprint", b"")


def block(number: int) -> Forget:
    return Forget(Scope.BLOCK, name(number))


def level(kind: Level) -> MemoryLevel:
    made = MemoryLevel(kind)
    if kind is not Level.DISK:
        made.log = MemoryLog()
    return made


class Below:
    """A store over a host, a disk and a redis level."""

    def __init__(self) -> None:
        self.host, self.disk, self.redis = level(Level.HOST), level(Level.DISK), level(Level.REDIS)
        self._woken = queue.SimpleQueue[None]()
        self._num_lookups = 0

    @contextmanager
    def opened(self) -> Iterator[None]:
        levels = (self.host, self.disk, self.redis)
        pool = np.zeros((8, BLOCK_BYTES), np.uint8)
        config = KvStoreConfig(deadlines_s=dict.fromkeys(Level, WAIT_S), staging_bytes=16 * BLOCK_BYTES)
        self.store = KvStore(levels, pool, lambda: self._woken.put(None), EVERYTHING, config=config)
        yield
        self.store.close()

    def until(self, kind: type[StoreAnswer]) -> StoreAnswer:
        """The next answer of a kind, others are passed over."""
        while True:
            for answer in self.store.take():
                if isinstance(answer, kind):
                    return answer
            self._woken.get(timeout=WAIT_S)

    def notice(self) -> tuple[Forget, ...]:
        answer = self.until(ForgetNotice)
        assert isinstance(answer, ForgetNotice)
        return answer.forgets

    def until_known(self, level: Level, version: int) -> None:
        """Until the log has been read that far."""
        while self.store._versions[level] != version:
            self._woken.get(timeout=WAIT_S)
            self.store.take()

    def save(self, number: int) -> None:
        """Until it lies on all levels."""
        assert self.store.save((Save(head(number), number),)) == 1
        self.until(SaveAnswer)
        while len(self.kept(number)) < 3:
            self.settle()

    def settle(self) -> None:
        """Until all levels have done what they were told before."""
        for _ in range(2):
            self._num_lookups += 1
            self.store.look_up(Lookup(self._num_lookups, (b"nowhere",), b""))
            self.until(LookupAnswer)

    def kept(self, number: int) -> list[Level]:
        return [each.level for each in (self.host, self.disk, self.redis) if name(number) in each.blocks]


@pytest.fixture
def below() -> Iterator[Below]:
    below = Below()
    with below.opened():
        yield below


def log_of(level: MemoryLevel) -> MemoryLog:
    assert level.log is not None
    return level.log


def test_what_another_engine_of_the_host_forgets_is_known_before_the_next_step(below: Below) -> None:
    log_of(below.host).append(block(1), block(2))
    assert below.store.take() == [ForgetNotice((block(1), block(2)))]
    assert below.store.take() == []


def test_what_another_host_forgets_comes_by_itself(below: Below) -> None:
    log_of(below.redis).append(block(1))
    assert below.notice() == (block(1),)


def test_what_the_host_forgot_leaves_the_disk_too(below: Below) -> None:
    below.save(1)
    below.save(2)
    log_of(below.host).append(block(1))
    below.notice()
    below.settle()
    assert below.kept(1) == [Level.HOST, Level.REDIS]  # they are told by whoever forgot it
    assert below.kept(2) == [Level.HOST, Level.DISK, Level.REDIS]


def test_what_another_host_forgot_leaves_host_and_disk_which_note_how_far_they_know(below: Below) -> None:
    below.save(1)
    log_of(below.redis).append(block(1))
    below.notice()
    below.settle()
    assert below.kept(1) == [Level.REDIS]
    assert below.host.told == below.disk.told == 2


def test_levels_that_nobody_has_told_hear_of_what_comes(below: Below) -> None:
    below.settle()
    assert below.host.told == below.disk.told == log_of(below.redis).version()


def test_a_host_that_another_engine_has_told_already_is_not_told_again(below: Below) -> None:
    below.save(1)
    below.host.told = 2
    log_of(below.redis).append(block(1))
    below.notice()
    below.settle()
    assert below.kept(1) == [Level.HOST, Level.REDIS]


def test_a_level_that_cannot_forget_has_not_been_told(below: Below) -> None:
    below.settle()
    below.disk.fail()
    log_of(below.redis).append(block(1))
    below.notice()
    below.settle()
    assert (below.host.told, below.disk.told) == (2, 1)
    below.disk.recover()
    log_of(below.redis).append(block(2))
    below.notice()
    below.settle()
    assert below.disk.told == 3


def test_what_was_saved_before_a_forget_was_known_is_not_written_behind_it(below: Below) -> None:
    below.settle()
    for shared in (below.host, below.redis):  # as another engine of this host does
        log_of(shared).append(block(1))
    assert below.store.save((Save(head(1), 1),)) == 1  # the engine has not looked yet
    below.until(SaveAnswer)
    below.settle()
    below.until_known(Level.REDIS, 2)
    assert below.kept(1) == []
    below.save(2)


def test_who_was_away_for_too_long_forgets_everything(below: Below) -> None:
    below.save(1)
    log = log_of(below.redis)
    log.reaches = 100
    log.append(*map(block, range(200, 300)))
    assert below.notice() == (EVERYTHING,)
    below.settle()
    assert below.kept(1) == [Level.REDIS]
    log.append(block(5))
    assert below.notice() == (block(5),)


def test_a_log_that_is_down_tells_when_it_is_back(below: Below) -> None:
    log = log_of(below.redis)
    log.is_down = True
    log.append(block(1))
    below.settle()
    log.is_down = False
    assert below.notice() == (block(1),)


def test_levels_that_outlive_an_engine_hear_what_they_missed() -> None:
    below = Below()
    with below.opened():
        below.save(1)
        log_of(below.redis).append(block(9))
        below.notice()
        below.settle()
    log_of(below.redis).append(block(1))
    with below.opened():
        assert below.notice() == (block(1),)
        below.settle()
        assert below.kept(1) == [Level.REDIS]
    with below.opened():
        assert below.store.take() == []


def test_a_log_that_cannot_be_reached_at_the_start_may_have_said_anything() -> None:
    below = Below()
    log_of(below.redis).is_down = True
    with below.opened():
        log_of(below.redis).is_down = False
        assert below.notice() == (EVERYTHING,)
