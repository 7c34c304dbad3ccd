"""Where the step loop's time goes: parts that follow each other without a gap, so that they add up to all of it."""

import time
from collections.abc import Callable, Mapping

from tailrace.records import EnginePart

__all__ = ["WallTime"]


class WallTime:
    """The engine's thread says when it begins a part; any thread may ask how long each has taken."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._part = EnginePart.IDLE
        self._began_s = self._since_s = clock()
        self._seconds = [0.0] * len(EnginePart)

    def begin(self, part: EnginePart, now_s: float) -> None:
        """From this moment on it is this part."""
        self._seconds[self._part] += now_s - self._since_s
        self._since_s = now_s
        self._part = part

    def seconds(self) -> Mapping[str, float]:
        """Of each part since the beginning, what is going on included."""
        part, seconds = self._part, self._seconds.copy()
        # Not from `_since_s`, which may be another part's by now: what is left of the whole was never counted twice.
        seconds[part] += max(self._clock() - self._began_s - sum(seconds), 0.0)
        return {part.name.lower(): seconds[part] for part in EnginePart}
