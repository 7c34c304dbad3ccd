"""The values behind metrics, as plain numbers: recording must cost next to nothing in the engine's thread.

One thread writes a series; another may read it at any time and sees each number whole.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from tailrace.telemetry.catalog import Metric

__all__ = [
    "Histogram",
    "LabelledHistogram",
    "LabelledNumber",
    "Number",
    "Samples",
    "Series",
    "add_samples",
    "over_classes",
    "samples_of",
]

Samples = list[tuple[tuple[str, ...], list[float]]]
"""All values of a series: of each label set its number, or its histogram's counts and their sum."""


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


class LabelledHistogram:
    """A histogram for each of the known label sets, and for no other."""

    __slots__ = ("histograms", "metric")

    def __init__(self, metric: Metric, known: Iterable[tuple[str, ...]]) -> None:
        self.metric = metric
        self.histograms = {labels: Histogram(metric) for labels in known}

    def of(self, *labels: str) -> Histogram:
        return self.histograms[labels]


def over_classes(series: "Series") -> "Series":
    """The same without the label `class`: the sum over the classes."""
    labels = series.metric.labels
    if "class" not in labels:
        return series
    place = labels.index("class")
    metric = replace(series.metric, labels=labels[:place] + labels[place + 1 :])
    return (
        _summed_histogram(series, metric) if isinstance(series, LabelledHistogram) else _summed(series, metric, place)
    )


def _summed(series: "Series", metric: Metric, place: int) -> LabelledNumber:
    assert isinstance(series, LabelledNumber), "what has labels is a labelled number or histogram"
    total = LabelledNumber(metric)
    for values, number in list(series.values.items()):
        total.add(number, *values[:place], *values[place + 1 :])
    return total


def _summed_histogram(series: LabelledHistogram, metric: Metric) -> Histogram:
    assert not metric.labels, "histograms have the label class alone"
    total = Histogram(metric)
    for each in series.histograms.values():
        total.counts = [a + b for a, b in zip(total.counts, each.counts, strict=True)]
        total.sum += each.sum
    return total


Series = Number | LabelledNumber | Histogram | LabelledHistogram


def samples_of(series: Series) -> Samples:
    """The values as they are now, from any thread."""
    match series:
        case Number():
            return [((), [float(series.value)])]
        case LabelledNumber():
            return [(labels, [float(value)]) for labels, value in list(series.values.items())]
        case Histogram():
            return [((), [*series.counts, series.sum])]
        case LabelledHistogram():
            return [(labels, [*each.counts, each.sum]) for labels, each in series.histograms.items()]


def add_samples(series: Series, samples: Samples) -> None:
    """Add the values that a series of another process has."""
    for labels, values in samples:
        match series:
            case Number():
                series.value += values[0]
            case LabelledNumber():
                series.add(values[0], *labels)
            case Histogram():
                _add_counts(series, values)
            case LabelledHistogram():
                _add_counts(series.of(*labels), values)


def _add_counts(histogram: Histogram, values: list[float]) -> None:
    *counts, total = values
    histogram.counts = [a + int(b) for a, b in zip(histogram.counts, counts, strict=True)]
    histogram.sum += total
