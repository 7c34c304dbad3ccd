"""How often something that dies is started again."""

from collections import deque

__all__ = ["Restarts"]


class Restarts:
    """At most so many times in `window_s`; then not before the first of these is as long ago."""

    def __init__(self, most: int, window_s: float = 60.0) -> None:
        self._most = most
        self._window_s = window_s
        self._deaths: deque[float] = deque(maxlen=most + 1)

    def died(self, now_s: float) -> float:
        """It died once more; when to start it again: now, or later."""
        self._deaths.append(now_s)
        if len(self._deaths) <= self._most:
            return now_s
        return max(self._deaths[0] + self._window_s, now_s)
