"""What all series say at one moment, and what they gained until a later one."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.series import Samples

__all__ = ["Reading", "Readings", "Window"]


class Reading:
    """The values of all series at one moment, in monotonic seconds."""

    def __init__(self, at_s: float, samples: Iterable[tuple[Metric, Samples]]) -> None:
        self.at_s = at_s
        self._values = {metric.name: dict(labelled) for metric, labelled in samples}

    def values(self, metric: Metric) -> Mapping[tuple[str, ...], Sequence[float]]:
        """By label set: a number, or the counts of a histogram and their sum."""
        return self._values.get(metric.name, {})

    def numbers(self, metric: Metric) -> Mapping[tuple[str, ...], float]:
        """By label set, of what is no histogram."""
        return {place: values[0] for place, values in self.values(metric).items()}

    def by_label(self, metric: Metric) -> dict[str, float]:
        """Of what is no histogram and has one label."""
        return {label: number for (label,), number in self.numbers(metric).items()}

    def value(self, metric: Metric, **labels: str) -> float | None:
        """The sum over all label sets with these labels; None where there is none."""
        found = [number for place, number in self.numbers(metric).items() if _has(metric, place, labels)]
        return sum(found) if found else None

    def num_observed(self, metric: Metric) -> float:
        """By a histogram, over all its label sets."""
        return sum(sum(values[:-1]) for values in self.values(metric).values())


class Readings:
    """Those of the last while, oldest first."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._readings: deque[Reading] = deque()

    def add(self, reading: Reading) -> None:
        self._readings.append(reading)
        while len(self._readings) > 2 and self._readings[1].at_s <= reading.at_s - self._kept_s:
            self._readings.popleft()

    def over(self, seconds: float) -> "Window":
        """From as long ago, or from the first reading, to the latest. There must be one."""
        last = self._readings[-1]
        first = next(each for each in self._readings if each.at_s >= last.at_s - seconds)
        return Window(first, last)


class Window:
    """What series gained between two readings. What is new counts from zero, what went back gained nothing."""

    def __init__(self, first: Reading, last: Reading) -> None:
        self.first = first
        self.last = last

    @property
    def seconds(self) -> float:
        return self.last.at_s - self.first.at_s

    def gained(self, metric: Metric, **labels: str) -> float:
        """Over all label sets with these labels: of a counter its gain, of a histogram that of its sum."""
        assert metric.kind is not Kind.GAUGE, f"{metric.name} does not count"
        return sum(gains[-1] for gains in self._gains(metric, labels))

    def rate(self, metric: Metric, **labels: str) -> float:
        """The same for each second; 0 before there are two readings."""
        return self.gained(metric, **labels) / self.seconds if self.seconds > 0.0 else 0.0

    def observed_rate(self, metric: Metric) -> float:
        """Observations of a histogram each second; 0 before there are two readings."""
        num_new = max(self.last.num_observed(metric) - self.first.num_observed(metric), 0.0)
        return num_new / self.seconds if self.seconds > 0.0 else 0.0

    def share(self, part: Metric, whole: Metric, **labels: str) -> float | None:
        """Of what the whole gained, the part; None when that is nothing. The labels are the part's."""
        total = self.gained(whole)
        return min(self.gained(part, **labels) / total, 1.0) if total > 0.0 else None

    def quantile(self, metric: Metric, quantile: float, **labels: str) -> float | None:
        """Of the observations of a histogram meanwhile, within their bucket in proportion; None: there are none.

        What lies behind the last bound counts as that bound (as Prometheus' histogram_quantile does).
        """
        counts = [sum(each) for each in zip(*(gains[:-1] for gains in self._gains(metric, labels)), strict=True)]
        rank = quantile * sum(counts)
        below = 0.0
        for index, count in enumerate(counts):
            if count > 0.0 and below + count >= rank:
                return _within(metric.buckets, index, (rank - below) / count)
            below += count
        return None

    def _gains(self, metric: Metric, labels: Mapping[str, str]) -> list[list[float]]:
        before = self.first.values(metric)
        return [
            [max(now - then, 0.0) for now, then in zip(values, before.get(place, (0.0,) * len(values)), strict=True)]
            for place, values in self.last.values(metric).items()
            if _has(metric, place, labels)
        ]


def _has(metric: Metric, place: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    return all(place[metric.labels.index(name)] == value for name, value in labels.items())


def _within(bounds: Sequence[float], index: int, share: float) -> float:
    if index >= len(bounds):
        return bounds[-1]
    lower = bounds[index - 1] if index > 0 else 0.0
    return lower + (bounds[index] - lower) * share
