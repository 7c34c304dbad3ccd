"""The token ring with each of its ways to wait."""

import asyncio
import mmap
from typing import ClassVar

from benchmarks.ring.transport import Mode, Receiver, Sender, Step, Took, repeat
from tailrace.ring import Bell, FutexBell, TokenRing, Told, push_events

__all__ = ["FutexRing", "LoopRing", "Ring"]

NUM_SLOTS = 8192
_WAIT_S = 10.0


def _shared_memory(num_bytes: int) -> memoryview:
    return memoryview(mmap.mmap(-1, num_bytes))


class Ring:
    """Its reader sleeps on a file descriptor."""

    modes: ClassVar[tuple[Mode, ...]] = (Mode.SPIN, Mode.SLEEP)

    def __init__(self) -> None:
        self.ring = TokenRing(_shared_memory(TokenRing.bytes_for(NUM_SLOTS)))
        self.bell: Bell | FutexBell = Bell()

    def sender(self, num_tokens: int) -> Sender:
        return _Sender(self.ring, self.bell, num_tokens)

    def receiver(self, mode: Mode) -> Receiver:
        return _Spinning(self.ring) if mode is Mode.SPIN else _Sleeping(self.ring, self.bell)


class FutexRing(Ring):
    """Its reader sleeps on a word of the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.bell = FutexBell(_shared_memory(FutexBell.NUM_BYTES))


class LoopRing(Ring):
    """Its reader sleeps in asyncio's event loop."""

    modes: ClassVar[tuple[Mode, ...]] = (Mode.SLEEP,)

    def __init__(self) -> None:
        super().__init__()
        self._watched = self.bell = Bell()

    def receiver(self, mode: Mode) -> Receiver:
        return _InLoop(self.ring, self._watched)


class _Sender:
    def __init__(self, ring: TokenRing, bell: Bell | FutexBell, num_tokens: int) -> None:
        self._bell = bell
        self._told = {f"request-{index}": Told(ring, index) for index in range(num_tokens)}

    def send(self, step: Step) -> None:
        first = 0
        while first < len(step.events):
            first = push_events(step.events, self._told, 1, first)
            self._bell.ring()


class _Spinning:
    def __init__(self, ring: TokenRing) -> None:
        self._ring = ring

    def run(self, took: Took) -> None:
        repeat(lambda: len(self._ring.pop(NUM_SLOTS)), took)


class _Sleeping:
    def __init__(self, ring: TokenRing, bell: Bell | FutexBell) -> None:
        self._ring = ring
        self._bell = bell

    def run(self, took: Took) -> None:
        repeat(self._receive, took)

    def _receive(self) -> int:
        self._bell.wait(_WAIT_S)
        return len(self._ring.pop(NUM_SLOTS))


class _InLoop:
    def __init__(self, ring: TokenRing, bell: Bell) -> None:
        self._ring = ring
        self._bell = bell

    def run(self, took: Took) -> None:
        asyncio.run(self._read(took))

    async def _read(self, took: Took) -> None:
        loop, is_done = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            self._bell.clear()
            is_last = not took(len(self._ring.pop(NUM_SLOTS)))
            if is_last:
                is_done.set()
            elif not self._bell.arm():
                loop.call_soon(wake)

        loop.add_reader(self._bell.fd, wake)
        wake()
        await is_done.wait()
        loop.remove_reader(self._bell.fd)
