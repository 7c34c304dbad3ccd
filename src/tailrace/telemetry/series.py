"""The values behind metrics, as plain numbers: recording must cost next to nothing in the engine's thread.

One thread writes a series; another may read it at any time and sees each number whole.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tailrace.telemetry.metric import Metric

__all__ = [
    "Exemplar",
    "Exemplars",
    "Histogram",
    "LabelledHistogram",
    "LabelledNumber",
    "Labels",
    "Number",
    "Regroup",
    "Samples",
    "Series",
    "add_exemplars",
    "add_samples",
    "changed_samples_of",
    "exemplars_of",
    "histograms_of",
    "numbers_of",
    "over_classes",
    "regrouped",
    "samples_of",
]

Labels = tuple[str, ...]
Samples = list[tuple[Labels, list[float]]]
"""All values of a series: of each label set its number, or its histogram's counts and their sum."""


class Exemplar(NamedTuple):
    """One observation that was traced. `at_s` is in seconds since 1970."""

    trace_id: str
    value: float
    at_s: float


Exemplars = list[tuple[Labels, int, Exemplar]]
"""The latest of each bucket of a series that has one: label set, place of the bucket, exemplar."""


class Number:
    """The value of a counter or gauge without labels; add to it, set it, or let it follow a total."""

    __slots__ = ("_seen", "metric", "value")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.value: float = 0
        self._seen: float = 0

    def follow(self, total: float) -> None:
        """Somebody else has counted so many since this process began; what others counted before stays."""
        self.value += total - self._seen
        self._seen = total


class LabelledNumber:
    """One value per label set. Whoever writes passes label values from a bounded set only."""

    __slots__ = ("_seen", "metric", "values")

    def __init__(self, metric: Metric, known: Iterable[Labels] = ()) -> None:
        """The `known` label sets are shown from the start, as zeros."""
        self.metric = metric
        self.values: dict[Labels, float] = dict.fromkeys(known, 0)
        self._seen: dict[Labels, float] = {}

    def add(self, amount: float, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def set(self, value: float, *labels: str) -> None:
        self.values[labels] = value

    def follow(self, total: float, *labels: str) -> None:
        """Somebody else has counted so many since this process began; what others counted before stays."""
        self.add(total - self._seen.get(labels, 0), *labels)
        self._seen[labels] = total


class Histogram:
    """`counts[i]` are the observations in (bounds[i - 1], bounds[i]]; the last is the overflow."""

    __slots__ = ("_bounds", "counts", "exemplars", "metric", "sum")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._bounds = metric.buckets
        self.counts = [0] * (len(metric.buckets) + 1)
        self.sum: float = 0
        self.exemplars: dict[int, Exemplar] = {}  # by place of the bucket

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def observe_traced(self, value: float, trace_id: str, at_s: float) -> None:
        """As `observe`; the latest of a bucket leads from a figure to a trace that shows how it came about."""
        self.observe(value)
        self.exemplars[bisect_left(self._bounds, value)] = Exemplar(trace_id, value, at_s)

    def add(self, other: "Histogram") -> None:
        """What another of the same metric has observed."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum
        for place, exemplar in other.exemplars.copy().items():
            self.offer(place, exemplar)

    def offer(self, place: int, exemplar: Exemplar) -> None:
        """Keep it if it is later than the one that is there."""
        kept = self.exemplars.get(place)
        if kept is None or kept.at_s <= exemplar.at_s:
            self.exemplars[place] = exemplar


class LabelledHistogram:
    """A histogram for each of the known label sets, and for no other."""

    __slots__ = ("histograms", "metric")

    def __init__(self, metric: Metric, known: Iterable[Labels]) -> None:
        self.metric = metric
        self.histograms = {labels: Histogram(metric) for labels in known}

    def of(self, *labels: str) -> Histogram:
        return self.histograms[labels]


Series = Number | LabelledNumber | Histogram | LabelledHistogram
Regroup = Callable[[Labels], Labels | None]


def numbers_of(series: Number | LabelledNumber) -> Mapping[Labels, float]:
    """The values as they are now, by label set."""
    return {(): series.value} if isinstance(series, Number) else series.values.copy()


def histograms_of(series: Histogram | LabelledHistogram) -> Mapping[Labels, Histogram]:
    """By label set."""
    return {(): series} if isinstance(series, Histogram) else series.histograms


def regrouped(series: Series, metric: Metric, regroup: Regroup) -> LabelledNumber | LabelledHistogram:
    """The values under the labels that `regroup` makes of theirs, added up where these are the same; None: left out."""
    if isinstance(series, Histogram | LabelledHistogram):
        return _regrouped_histogram(series, metric, regroup)
    total = LabelledNumber(metric)
    for labels, value in numbers_of(series).items():
        if (group := regroup(labels)) is not None:
            total.add(value, *group)
    return total


def _regrouped_histogram(series: Histogram | LabelledHistogram, metric: Metric, regroup: Regroup) -> LabelledHistogram:
    total = LabelledHistogram(metric, ())
    for labels, histogram in histograms_of(series).items():
        if (group := regroup(labels)) is not None:
            total.histograms.setdefault(group, Histogram(metric)).add(histogram)
    return total


def over_classes(series: Series) -> Series:
    """The same without the label `class`: the sum over the classes."""
    metric = series.metric.without("class")
    if metric is series.metric:
        return series
    place = series.metric.labels.index("class")
    return regrouped(series, metric, lambda labels: labels[:place] + labels[place + 1 :])


def samples_of(series: Series) -> Samples:
    """The values as they are now, from any thread."""
    match series:
        case Number() | LabelledNumber():
            return [(labels, [float(value)]) for labels, value in numbers_of(series).items()]
        case Histogram() | LabelledHistogram():
            return [(labels, [*each.counts, each.sum]) for labels, each in histograms_of(series).items()]


def changed_samples_of(series: Series) -> Samples:
    """As `samples_of`, without the histograms that have observed nothing: of those a server has hundreds."""
    if isinstance(series, Number | LabelledNumber):
        return samples_of(series)
    histograms = histograms_of(series).items()
    return [(labels, [*each.counts, each.sum]) for labels, each in histograms if any(each.counts)]


def add_samples(series: Series, samples: Samples) -> None:
    """Add the values that a series of another process has."""
    match series:
        case Number():
            series.value += sum(value for _, (value,) in samples)
        case LabelledNumber():
            for labels, (value,) in samples:
                series.add(value, *labels)
        case Histogram() | LabelledHistogram():
            histograms = histograms_of(series)
            for labels, values in samples:
                _add_counts(histograms[labels], values)


def _add_counts(histogram: Histogram, values: list[float]) -> None:
    *counts, total = values
    histogram.counts = [a + int(b) for a, b in zip(histogram.counts, counts, strict=True)]
    histogram.sum += total


def exemplars_of(series: Series) -> Exemplars:
    """Those there are now, from any thread."""
    if isinstance(series, Number | LabelledNumber):
        return []
    return [
        (labels, place, exemplar)
        for labels, each in histograms_of(series).items()
        if each.exemplars
        for place, exemplar in each.exemplars.copy().items()
    ]


def add_exemplars(series: Series, exemplars: Exemplars) -> None:
    """Keep those that a series of another process has, where they are later."""
    assert isinstance(series, Histogram | LabelledHistogram), "numbers have no exemplars"
    for labels, place, exemplar in exemplars:
        histograms_of(series)[labels].offer(place, exemplar)
