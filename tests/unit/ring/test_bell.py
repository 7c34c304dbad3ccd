import asyncio
import select
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pytest

from tailrace.ring import Bell, FutexBell
from tests.support.killed import forked
from tests.support.shared import shared_memory

AnyBell: TypeAlias = Bell | FutexBell


def futex_bell() -> FutexBell:
    return FutexBell(shared_memory(FutexBell.NUM_BYTES))


@pytest.fixture(params=[Bell, futex_bell])
def bell(request: pytest.FixtureRequest) -> AnyBell:
    make: Callable[[], AnyBell] = request.param
    return make()


def test_a_bell_that_nobody_rings_is_waited_for_in_vain(bell: AnyBell) -> None:
    assert not bell.wait(0.0)
    assert not bell.wait(0.001)
    assert not bell.wait(0.001, spin_s=0.001)


def test_what_was_rung_before_is_known_at_once_and_once(bell: AnyBell) -> None:
    bell.ring()
    bell.ring()
    assert bell.wait(None)
    assert not bell.wait(0.0)


def test_a_reader_that_sleeps_on_another_thread_is_woken(bell: AnyBell) -> None:
    with ThreadPoolExecutor(1) as other:
        reader = other.submit(bell.wait, None)
        bell.ring()
        assert reader.result()


def answer(question: AnyBell, reply: AnyBell, spin_s: float) -> None:
    for _ in range(1000):
        assert question.wait(60.0, spin_s)
        reply.ring()


@pytest.mark.parametrize("spin_s", [0.0, 1e-5])
@pytest.mark.parametrize("make", [Bell, futex_bell])
def test_no_ring_is_lost_between_two_processes(make: Callable[[], AnyBell], spin_s: float) -> None:
    question, reply = make(), make()
    other = forked(answer, question, reply, spin_s)
    for _ in range(1000):
        question.ring()
        assert reply.wait(60.0)
    other.join()
    assert other.exitcode == 0


def test_it_may_be_rung_by_many(bell: AnyBell) -> None:
    ringers = [forked(bell.ring) for _ in range(3)]
    for ringer in ringers:
        ringer.join()
    assert bell.wait(60.0)
    assert not bell.wait(0.0)


class Stopped(Exception):
    pass


def stop(_: int, __: object) -> None:
    raise Stopped


def test_a_signal_reaches_a_reader_that_sleeps(bell: AnyBell) -> None:
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(Stopped):
            bell.wait(60.0)
    finally:
        signal.signal(signal.SIGALRM, before)


def is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def test_its_descriptor_is_readable_only_when_a_sleeper_was_rung() -> None:
    bell = Bell()
    bell.ring()
    assert not is_readable(bell.fd)
    assert not bell.arm()
    assert bell.arm()
    bell.ring()
    assert is_readable(bell.fd)
    bell.clear()
    assert not is_readable(bell.fd)
    assert bell.arm()


async def test_an_event_loop_wakes_for_it() -> None:
    bell, woken = Bell(), asyncio.Event()

    def wake() -> None:
        bell.clear()
        woken.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(bell.fd, wake)
    try:
        assert bell.arm()
        ringer = forked(bell.ring)
        await woken.wait()
        ringer.join()
    finally:
        loop.remove_reader(bell.fd)


def test_memory_that_does_not_do_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        FutexBell(shared_memory(63))
    with pytest.raises(ValueError, match="64 bytes"):
        FutexBell(shared_memory(4096)[4:])
