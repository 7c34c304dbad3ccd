"""How long is long: what waits are measured against, and who counts as equally old."""

from bisect import bisect_right
from collections import deque
from math import inf

__all__ = ["Cohorts", "LongestWait"]

COHORTS_A_WAIT = 8

_NUM_SLOTS = 60
_MAX_COHORTS = 1_024  # kept for those who come back


class LongestWait:
    """The longest wait that ended within a sliding window, to the slot of a sixtieth of it."""

    def __init__(self, window_s: float = 60.0) -> None:
        self._window_s = window_s
        self._slot_s = window_s / _NUM_SLOTS
        self._longest: deque[tuple[int, float]] = deque()  # slot, and the longest wait in it: each shorter than before

    def observe(self, wait_s: float, now_s: float) -> None:
        """Such a wait is over."""
        while self._longest and self._longest[-1][1] <= wait_s:
            self._longest.pop()
        slot = int(now_s // self._slot_s)
        if not self._longest or self._longest[-1][0] < slot:
            self._longest.append((slot, wait_s))

    def at(self, now_s: float) -> float:
        """Zero when none ended."""
        first = int((now_s - self._window_s) // self._slot_s)
        while self._longest and self._longest[0][0] <= first:
            self._longest.popleft()
        return self._longest[0][1] if self._longest else 0.0


class Cohorts:
    """Cuts time into pieces of an eighth of the longest wait, as that is when one begins.

    Those who arrived in the same piece count as equally old, so that there is something left to rank them by. It never
    changes who belongs to which, nor are cohorts ever overtaken: age is a constant key.
    """

    def __init__(self) -> None:
        self._starts_s: list[float] = []
        self._newest_s = -inf

    def of(self, arrival_s: float, longest_s: float) -> float:
        """When its cohort began."""
        starts_s = self._starts_s
        if arrival_s > self._newest_s:
            self._newest_s = arrival_s
            if not starts_s or arrival_s >= starts_s[-1] + longest_s / COHORTS_A_WAIT:
                self._begin(arrival_s)
        index = bisect_right(starts_s, arrival_s)
        return starts_s[index - 1] if index else arrival_s

    def _begin(self, start_s: float) -> None:
        self._starts_s.append(start_s)
        if len(self._starts_s) > 2 * _MAX_COHORTS:
            del self._starts_s[:_MAX_COHORTS]
