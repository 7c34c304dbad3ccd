"""Measures what the reader of an answer feels: the wait for its first text, and the gaps between pieces of text."""

import time
from collections.abc import Sequence

from tailrace.service.api import OBSERVE_ONE_IN, ChoiceDelta
from tailrace.telemetry.answers import AnswerCounts
from tailrace.telemetry.exemplars import observing
from tailrace.telemetry.lives import RequestLife

__all__ = ["GapClock"]

_AT_ONCE_S = 1e-3  # a write that takes longer waits for the client


class GapClock:
    """One per answer; `tick` at each delta. Those without tokens, as an echo or a bare end, count for nothing.

    `wrote` when what was ticked is with the socket, `ended` when all is. The way of the first token of an answer that
    leaves as a whole ends with its text.
    """

    __slots__ = (
        "_arrived_s",
        "_counts",
        "_has_begun",
        "_is_streamed",
        "_last_s",
        "_num_unobserved",
        "_observe_gap",
        "_ticked_s",
        "life",
    )

    def __init__(self, counts: AnswerCounts, life: RequestLife, num_choices: int, *, is_streamed: bool = True) -> None:
        self.life = life
        self._is_streamed = is_streamed
        self._counts = counts
        self._observe_gap = observing(counts.gaps_of(life.class_name), life.trace)
        self._arrived_s: float | None = life.accepted_s
        self._last_s: list[float | None] = [None] * num_choices
        self._ticked_s = 0.0
        self._has_begun = False
        self._num_unobserved = OBSERVE_ONE_IN  # the first piece is looked at

    def tick(self, delta: ChoiceDelta) -> None:
        num_tokens = len(delta.token_ids)
        if num_tokens == 0:
            return
        if num_tokens > 1:
            self._counts.coalesce(num_tokens - 1)
        now = self._ticked_s = time.monotonic()
        last = self._last_s[delta.index]
        self._last_s[delta.index] = now
        if last is not None:
            self._observe_gap(now - last)
        elif self._arrived_s is not None:
            observing(self._counts.first_text_of(self.life.class_name), self.life.trace)(now - self._arrived_s)
            self._arrived_s = None

    def wrote(self, deltas: Sequence[ChoiceDelta]) -> None:
        """These are with the socket."""
        self._num_unobserved += 1
        if self._num_unobserved >= OBSERVE_ONE_IN:
            self._look(deltas)

    def ended(self) -> None:
        """All of a stream is with the socket, its first piece perhaps only now; or a whole answer is about to leave."""
        if not self._has_begun and self.life.text_s is not None:
            self._begin(self.life.text_s, time.monotonic())

    def _look(self, deltas: Sequence[ChoiceDelta]) -> None:
        now_s = time.monotonic()
        if self._has_begun:
            self._num_unobserved = 0
            took_s = now_s - self._ticked_s
            observe = self._counts.observe_write if took_s < _AT_ONCE_S else self._counts.observe_client
            observe(took_s, sum([len(delta.token_ids) for delta in deltas]))
        elif self.life.text_s is not None:
            self._begin(self.life.text_s, now_s)

    def _begin(self, text_s: float, written_s: float) -> None:
        self._has_begun = True
        self.life.written_s = written_s if self._is_streamed else text_s
        self._counts.first_token(self.life)
