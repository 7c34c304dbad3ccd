"""The gaps between tokens of late, as ratios to what they should be at most, and their quantile."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Gap", "GapWindow", "upper_quantile"]

_MIN_ABOVE = 2  # steps: one that was slow by itself says nothing of the others


class Gap(NamedTuple):
    """A step's time over the tightest target of the streams it served (1 = on target), and how many these were."""

    ratio: float
    num_streams: int
    fixed_ratio: float  # what the ratio would have been at the least pace

    @property
    def is_paced(self) -> bool:
        """Whether a lower pace would have made it shorter."""
        return self.fixed_ratio < self.ratio


class _Dated(NamedTuple):
    sample: int
    gap: Gap


class GapWindow:
    """The steps of the last `num_samples` samples, and no more than `max_steps`. Samples are numbered from 0 on."""

    def __init__(self, num_samples: int, max_steps: int) -> None:
        self._num_samples = num_samples
        self._gaps: deque[_Dated] = deque(maxlen=max_steps)
        self.sample = 0  # that runs
        self.num_fresh = 0

    def add(self, gap: Gap) -> None:
        self._gaps.append(_Dated(self.sample, gap))
        self.num_fresh += 1

    def since(self, sample: int) -> list[Gap]:
        """Those that came after `sample` had ended."""
        return [dated.gap for dated in self._gaps if dated.sample > sample]

    def next_sample(self) -> None:
        """Begin the next sample; the oldest leaves."""
        self.sample += 1
        self.num_fresh = 0
        while self._gaps and self._gaps[0].sample <= self.sample - self._num_samples:
            self._gaps.popleft()


def upper_quantile(ratios: Iterable[tuple[float, int]], share: float) -> float | None:
    """The least ratio that at least `share` of all gaps do not exceed; None for less than two steps.

    Each pair is a step's ratio and its gaps, which are all alike. Of few steps, the largest is left out.
    """
    largest_first = sorted(ratios, reverse=True)
    if len(largest_first) < _MIN_ABOVE:
        return None
    num_above = (1.0 - share) * sum(count for _, count in largest_first)
    passed = 0
    for index, (ratio, count) in enumerate(largest_first):
        passed += count
        if passed > num_above and index >= _MIN_ABOVE - 1:
            return ratio
    return largest_first[-1][0]
