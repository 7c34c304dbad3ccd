"""What each process of a server counts, brought together when somebody looks: a page of shared memory for each.

    0   sequence      odd while somebody writes; the page is whole when it is even and the same before and after
    8   num_bytes     of what was written
    16  wanted        raised by who wants to read
    24  given         the value of `wanted` that the owner saw before it wrote
    32  bytes

Who wants to read raises `wanted` and wakes the owner, who writes; so counting costs nothing while nobody looks.
"""

import asyncio
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence

__all__ = ["MetricsPage", "Snapshot", "collect", "publish_from_thread"]

_PAGE_BYTES = 4 << 20  # not touched before it is used
_HEAD_BYTES = 32
_SEQUENCE, _NUM_BYTES, _WANTED, _GIVEN = range(4)
_TRIES = 16
_LONGEST_WAIT_S = 0.5
_LOOK_S = 0.002

Snapshot = Callable[[], bytes]


class MetricsPage:
    """Make it before the fork. One process owns it; another may, once that is dead."""

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _PAGE_BYTES))
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
        """Write what there is. By the owner alone. More than a page holds is not written at all."""
        wanted = self._words[_WANTED]
        data = snapshot()
        if len(data) <= _PAGE_BYTES - _HEAD_BYTES:
            self._words[_SEQUENCE] |= 1
            self._memory[_HEAD_BYTES : _HEAD_BYTES + len(data)] = data
            self._words[_NUM_BYTES] = len(data)
            self._words[_SEQUENCE] += 1
        self._words[_GIVEN] = wanted

    def read(self) -> bytes:
        """What was written last; empty when nothing was, or somebody died while writing."""
        for _ in range(_TRIES):
            before = self._words[_SEQUENCE]
            num_bytes = min(self._words[_NUM_BYTES], _PAGE_BYTES - _HEAD_BYTES)
            data = bytes(self._memory[_HEAD_BYTES : _HEAD_BYTES + num_bytes])
            if before % 2 == 0 and self._words[_SEQUENCE] == before:
                return data
        return b""


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
