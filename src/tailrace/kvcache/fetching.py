"""Is it quicker to fetch blocks from a level or to compute them again? Decided from what both took lately."""

import math

from tailrace.types import Level

__all__ = ["FetchCosts", "LinearCost"]

_KEEP = 1.0 - 1.0 / 16  # of what was seen before, with each observation
_RETRY_S = 10.0
_MIN_PATIENCE_S = 0.1  # threads of a busy machine may take turns for so long


class LinearCost:
    """Seconds as a start-up time and a time for each block, fitted to the latest observations."""

    def __init__(self) -> None:
        self._weight = self._count = self._seconds = self._square = self._product = 0.0

    def observe(self, count: int, seconds: float) -> None:
        self._weight = self._weight * _KEEP + 1.0
        self._count = self._count * _KEEP + count
        self._seconds = self._seconds * _KEEP + seconds
        self._square = self._square * _KEEP + count * count
        self._product = self._product * _KEEP + count * seconds

    def predict(self, count: int) -> float | None:
        """Seconds that `count` blocks take; None before anything was seen."""
        if not self._count:
            return None
        spread = self._square * self._weight - self._count**2
        if spread < 1e-9 * self._square * self._weight:  # always the same count
            return self._seconds / self._count * count
        per_block = (self._product * self._weight - self._count * self._seconds) / spread
        start_up = (self._seconds - per_block * self._count) / self._weight
        if per_block < 0:
            return self._seconds / self._weight
        return self._seconds / self._count * count if start_up < 0 else start_up + per_block * count


class FetchCosts:
    """What is not known is tried. So is, every few seconds, a level that was too slow: it may have recovered."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._fetches: dict[Level, LinearCost] = {}
        self._tried_s: dict[Level, float] = {}
        self._computed_tokens = 0.0
        self._computed_s = 0.0

    def fetched(self, level: Level, num_blocks: int, took_s: float) -> None:
        """`num_blocks` were asked for; they arrived after `took_s`, or it was known by then that they would not."""
        self._fetches.setdefault(level, LinearCost()).observe(num_blocks, took_s)

    def computed(self, num_tokens: int, took_s: float) -> None:
        """A step computed so many tokens of prompts."""
        self._computed_tokens = self._computed_tokens * _KEEP + num_tokens
        self._computed_s = self._computed_s * _KEEP + took_s

    def patience_s(self, num_blocks: int) -> float:
        """For how long a request waits to hear where so many blocks lie: no longer than it takes to compute them."""
        return max(self._recompute_s(num_blocks), _MIN_PATIENCE_S)

    def saved_s(self, level: Level, num_blocks: int) -> float:
        """How much sooner so many blocks are there from a level than computed, by what is known; 0 if they are not."""
        recompute_s = self._recompute_s(num_blocks)
        if not num_blocks or math.isinf(recompute_s):
            return 0.0
        cost = self._fetches.get(level)
        fetch_s = None if cost is None else cost.predict(num_blocks)
        return max(recompute_s - (fetch_s or 0.0), 0.0)

    def is_worth_trying(self, level: Level, num_blocks: int, now_s: float) -> bool:
        """Whether to fetch so many blocks from this level now."""
        is_due = now_s - self._tried_s.get(level, now_s) >= _RETRY_S
        if not is_due and self._is_slower(level, num_blocks):
            return False
        self._tried_s[level] = now_s
        return True

    def _is_slower(self, level: Level, num_blocks: int) -> bool:
        cost = self._fetches.get(level)
        fetch_s = None if cost is None else cost.predict(num_blocks)
        return fetch_s is not None and fetch_s > self._recompute_s(num_blocks)

    def _recompute_s(self, num_blocks: int) -> float:
        """Infinite while nobody knows."""
        if not self._computed_tokens:
            return math.inf
        return num_blocks * self._block_tokens * self._computed_s / self._computed_tokens
