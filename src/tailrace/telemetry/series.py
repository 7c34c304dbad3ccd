"""The values behind metrics, as plain numbers: recording must cost next to nothing in the engine's thread.

One thread writes a series; another may read it at any time and sees each number whole.
"""

from bisect import bisect_left
from collections.abc import Iterable

from tailrace.telemetry.catalog import Metric

__all__ = ["Histogram", "LabelledNumber", "Number", "Series"]


class Number:
    """The value of a counter or gauge without labels; add to it or set it."""

    __slots__ = ("metric", "value")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.value: float = 0


class LabelledNumber:
    """One value per label set. Whoever writes passes label values from a bounded set only."""

    __slots__ = ("metric", "values")

    def __init__(self, metric: Metric, known: Iterable[tuple[str, ...]] = ()) -> None:
        """The `known` label sets are shown from the start, as zeros."""
        self.metric = metric
        self.values: dict[tuple[str, ...], float] = dict.fromkeys(known, 0)

    def add(self, amount: float, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def set(self, value: float, *labels: str) -> None:
        self.values[labels] = value


class Histogram:
    """`counts[i]` are the observations in (bounds[i - 1], bounds[i]]; the last is the overflow."""

    __slots__ = ("_bounds", "counts", "metric", "sum")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._bounds = metric.buckets
        self.counts = [0] * (len(metric.buckets) + 1)
        self.sum: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


Series = Number | LabelledNumber | Histogram
