"""A rate with its burst in one number: the generic cell rate algorithm (ITU-T I.371, annex A, virtual scheduling).

Times are integers of nanoseconds, so that a limit of some thousand a minute is met exactly; those of millions, which
are so of tokens, to a hundredth of a percent.
"""

from dataclasses import dataclass

__all__ = ["MinuteRate"]

_MINUTE_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class MinuteRate:
    """So many a minute; a minute's worth may come at once. The state is `full_ns`: when all of that is there again."""

    per_minute: int

    def wait_ns(self, full_ns: int, now_ns: int) -> int:
        """Until one more may come; 0: it may now."""
        return max(0, full_ns + self._takes_ns(1) - _MINUTE_NS - now_ns)

    def taken(self, full_ns: int, now_ns: int, amount: int = 1) -> int:
        """The new state. More than there is may be taken: it is waited for later."""
        return max(full_ns, now_ns) + self._takes_ns(amount)

    def left(self, full_ns: int, now_ns: int) -> int:
        """How many may come now."""
        there_ns = _MINUTE_NS - max(0, full_ns - now_ns)
        return min(max(0, there_ns // self._takes_ns(1)), self.per_minute)

    def _takes_ns(self, amount: int) -> int:
        return amount * _MINUTE_NS // self.per_minute
