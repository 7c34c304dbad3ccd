"""A loop in a thread: whoever hands it work gets an answer, be it that it is closed meanwhile."""

import asyncio
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from tailrace.loop_thread import LoopClosed, LoopThread

CALLERS = 4


async def _nothing() -> int:
    await asyncio.sleep(0)
    return 1


def _call_until_refused(loop: LoopThread, is_going: threading.Barrier) -> str:
    is_going.wait()
    while True:
        try:
            loop.run(_nothing())
        except LoopClosed:
            return "refused"


def test_every_caller_gets_an_answer_while_it_is_closed() -> None:
    for _ in range(50):
        loop, is_going = LoopThread("loop"), threading.Barrier(CALLERS + 1)
        with ThreadPoolExecutor(CALLERS) as pool:
            callers = [pool.submit(_call_until_refused, loop, is_going) for _ in range(CALLERS)]
            is_going.wait()
            loop.close(10.0)
            assert [caller.result(timeout=10) for caller in callers] == ["refused"] * CALLERS


def test_what_was_handed_over_ends_before_it_is_closed() -> None:
    loop, begun, may_end = LoopThread("loop"), threading.Event(), threading.Event()

    async def wait() -> int:
        begun.set()
        while not may_end.is_set():
            await asyncio.sleep(0.001)
        return 7

    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(loop.run, wait())
        begun.wait()
        loop.refuse()
        closing = pool.submit(loop.close, 60.0)
        may_end.set()
        assert waiting.result(timeout=10) == 7
        closing.result(timeout=10)


def test_what_does_not_end_is_cancelled() -> None:
    loop, begun = LoopThread("loop"), threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(loop.run, wait())
        begun.wait()
        loop.close(0.01)
        with pytest.raises(CancelledError):
            waiting.result(timeout=10)


async def test_a_caller_with_a_loop_of_its_own_is_not_blocked() -> None:
    loop = LoopThread("loop")
    assert sum(await asyncio.gather(loop.arun(_nothing()), loop.arun(_nothing()))) == 2
    loop.close(1.0)
    with pytest.raises(LoopClosed):
        await loop.arun(_nothing())
