"""Signals as things that are waited for, one after the other, for at most so long.

`signal.sigtimedwait` would do, but that of CPython 3.11 returns garbage when a stopped process goes on.
"""

import os
import select
import signal
from collections import deque
from collections.abc import Iterable
from types import FrameType

__all__ = ["SignalQueue"]


class SignalQueue:
    """Those that were asked for, as they come. For the main thread, and once in a process."""

    def __init__(self) -> None:
        self._arrived: deque[signal.Signals] = deque()
        self._wakes, own = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(own, warn_on_full_buffer=False)

    def take(self, numbers: Iterable[signal.Signals]) -> None:
        """From now on these come here."""
        for number in numbers:
            signal.signal(number, self._note)

    def wait(self, timeout_s: float) -> list[signal.Signals]:
        """Those that have come, after at most so long; none: nothing has."""
        if not self._arrived:
            select.select([self._wakes], [], [], timeout_s)
        try:
            while os.read(self._wakes, 512):
                pass
        except BlockingIOError:
            pass
        return [self._arrived.popleft() for _ in range(len(self._arrived))]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append(signal.Signals(number))
