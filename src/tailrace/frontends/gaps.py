"""Measures what the reader of an answer feels: the wait for its first text, and the gaps between pieces of text."""

import time

from tailrace.service.api import ChoiceDelta
from tailrace.telemetry.answers import AnswerCounts

__all__ = ["GapClock"]


class GapClock:
    """One per answer; `tick` at each delta. Those without tokens, as an echo or a bare end, count for nothing."""

    __slots__ = ("_arrived_s", "_counts", "_last_s", "_observe_gap")

    def __init__(self, counts: AnswerCounts, class_name: str, arrived_s: float, num_choices: int) -> None:
        self._counts = counts
        self._observe_gap = counts.gaps_of(class_name).observe
        self._arrived_s: float | None = arrived_s
        self._last_s: list[float | None] = [None] * num_choices

    def tick(self, delta: ChoiceDelta) -> None:
        num_tokens = len(delta.token_ids)
        if num_tokens == 0:
            return
        if num_tokens > 1:
            self._counts.coalesce(num_tokens - 1)
        now = time.perf_counter()
        last = self._last_s[delta.index]
        self._last_s[delta.index] = now
        if last is not None:
            self._observe_gap(now - last)
        elif self._arrived_s is not None:
            self._counts.observe_first_text(now - self._arrived_s)
            self._arrived_s = None
