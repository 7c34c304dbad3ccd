"""What each process of a server counts, brought together when somebody looks: a page of shared memory for each.

    0   sequence      how often it was written; what was written last is in the half of this number's last bit
    8   num_bytes     of what is in the first half
    16  num_bytes     of what is in the second
    24  wanted        raised by who wants to read
    32  given         the value of `wanted` that the owner saw before it wrote
    40  two halves

Nobody writes to a half that is read before the sequence has changed. So who dies while it writes leaves what it wrote
before, and who takes its place goes on from that.

Who wants to read raises `wanted` and wakes the owner, who writes; so counting costs nothing while nobody looks.
"""

import asyncio
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence

__all__ = ["MetricsPage", "Snapshot", "collect", "publish_from_thread"]

_HALF_BYTES = 4 << 20  # not touched before it is used
_HEAD_BYTES = 40
_SEQUENCE, _NUM_BYTES, _, _WANTED, _GIVEN = range(5)
_TRIES = 16
_LONGEST_WAIT_S = 0.5
_LOOK_S = 0.002

Snapshot = Callable[[], bytes]


class MetricsPage:
    """Make it before the fork. One process owns it; another may, once that is dead."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _HEAD_BYTES + 2 * _HALF_BYTES))
        self._words = self._memory[:_HEAD_BYTES].cast("Q")
        self.wakes = os.eventfd(0)

    def want(self) -> int:
        """Ask the owner for what it has now; `is_given` this number once it is there."""
        wanted = self._words[_WANTED] = self._words[_WANTED] + 1
        os.eventfd_write(self.wakes, 1)
        return wanted

    def is_given(self, wanted: int) -> bool:
        return self._words[_GIVEN] >= wanted

    def publish(self, snapshot: Snapshot) -> None:
        """Write what there is. By the owner alone. More than a half holds is not written at all."""
        wanted = self._words[_WANTED]
        data = snapshot()
        if len(data) <= _HALF_BYTES:
            half = (self._words[_SEQUENCE] + 1) % 2
            begin = _begin_of(half)
            self._memory[begin : begin + len(data)] = data
            self._words[_NUM_BYTES + half] = len(data)
            self._words[_SEQUENCE] += 1
        self._words[_GIVEN] = wanted

    def read(self) -> bytes:
        """What was written last; empty when nothing was."""
        for _ in range(_TRIES):
            before = self._words[_SEQUENCE]
            begin = _begin_of(before % 2)
            data = bytes(self._memory[begin : begin + self._words[_NUM_BYTES + before % 2]])
            if self._words[_SEQUENCE] == before:
                return data
        return b""


def _begin_of(half: int) -> int:
    return _HEAD_BYTES + half * _HALF_BYTES


async def collect(pages: Sequence[MetricsPage]) -> list[bytes]:
    """What the owners have now; of one that does not answer for half a second, what it last wrote."""
    wanted = [page.want() for page in pages]
    ends_s = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < ends_s:
        if all(page.is_given(number) for page, number in zip(pages, wanted, strict=True)):
            break
        await asyncio.sleep(_LOOK_S)
    return [data for page in pages if (data := page.read())]


def publish_from_thread(page: MetricsPage, snapshot: Snapshot) -> None:
    """Have a thread write whenever somebody wants to read, for as long as this process lives."""

    def write() -> None:
        while True:
            os.eventfd_read(page.wakes)
            page.publish(snapshot)

    threading.Thread(target=write, name="tailrace-metrics", daemon=True).start()
