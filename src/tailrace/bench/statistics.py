"""Mean, median, deviation and percentiles of a sample, as numpy defines them, without numpy."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Spread", "percentile", "spread"]


@dataclass(frozen=True, slots=True)
class Spread:
    """How a sample is spread; every field is None when there was none."""

    mean: float | None = None
    median: float | None = None
    std: float | None = None  # of the population: divided by n
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


def spread(values: Iterable[float], scale: float = 1.0) -> Spread:
    """The spread of `values`, each multiplied by `scale`."""
    ordered = sorted(value * scale for value in values)
    if not ordered:
        return Spread()
    mean = math.fsum(ordered) / len(ordered)
    variance = math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)
    p50, p95, p99 = (percentile(ordered, q) for q in (50, 95, 99))
    return Spread(mean, p50, math.sqrt(variance), p50, p95, p99)


def percentile(ordered: Sequence[float], q: float) -> float:
    """The q-th percentile of a sorted, non-empty sample, linear between neighbours."""
    position = (len(ordered) - 1) * q / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
