"""Blocks of a level that were found damaged: their number, and a line in the log now and then."""

import logging
import time
from collections.abc import Callable

__all__ = ["Damage"]

logger = logging.getLogger(__name__)

_TELL_EVERY_S = 60.0


class Damage:
    """Says so at once of the first block, then at most once a minute of all up to then."""

    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._clock = clock
        self._told_s: float | None = None
        self.num_blocks = 0

    def found(self) -> None:
        self.num_blocks += 1
        now_s = self._clock()
        if self._told_s is None or now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            logger.warning(
                "a KV block in %s is damaged and was dropped, %d since the start: what they held is computed again",
                self._place,
                self.num_blocks,
            )
