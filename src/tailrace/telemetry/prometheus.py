"""Shows the series to Prometheus, in its text format or OpenMetrics. Costs nothing until somebody scrapes."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tailrace.records import Record
from tailrace.telemetry import catalog
from tailrace.telemetry.catalog import Kind
from tailrace.telemetry.engine import EngineMetrics
from tailrace.telemetry.experts import ExpertMetrics
from tailrace.telemetry.http import HttpMetrics
from tailrace.telemetry.series import Histogram, LabelledNumber, Number, Series

__all__ = ["Metrics"]


class Metrics:
    """All metrics of one server: `record` is the engine's sink, `http` the front end's counters.

    `experts` asks for its counts when somebody looks.
    """

    def __init__(self, *, model_name: str, version: str) -> None:
        self.engine = EngineMetrics()
        self.http = HttpMetrics()
        self.experts = ExpertMetrics()
        build = LabelledNumber(catalog.BUILD_INFO, [(version, model_name)])
        build.set(1, version, model_name)
        self._registry = CollectorRegistry()
        series = (*self.engine.series, *self.experts.series, *self.http.series, build)
        self._registry.register(_SeriesCollector(series, model_name))
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def record(self, record: Record) -> None:
        """The engine's sink: counts one record, in the calling thread."""
        self.engine.record(record)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format that the Accept header asks for."""
        self.experts.refresh()
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _SeriesCollector(Collector):
    def __init__(self, series: Iterable[Series], model_name: str) -> None:
        self._series = tuple(series)
        self._alias_labels = {"model_name": model_name, "engine": "0"}

    def collect(self) -> Iterator[Family]:
        for series in self._series:
            yield _family(series, series.metric.name, {})
            for alias in series.metric.aliases:
                yield _family(series, alias, self._alias_labels)


def _family(series: Series, name: str, constant: dict[str, str]) -> Family:
    """The values of a series under a name, each with the constant labels in front."""
    if isinstance(series, Histogram):
        return _histogram_family(series, name, constant)
    labels = (*constant, *series.metric.labels)
    make = CounterMetricFamily if series.metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(name, series.metric.help, labels=labels)
    for values, number in _samples(series):
        family.add_metric((*constant.values(), *values), number)
    return family


def _samples(series: Number | LabelledNumber) -> list[tuple[tuple[str, ...], float]]:
    if isinstance(series, Number):
        return [((), series.value)]
    return list(series.values.items())


def _histogram_family(series: Histogram, name: str, constant: dict[str, str]) -> Family:
    family = HistogramMetricFamily(name, series.metric.help, labels=tuple(constant))
    total, buckets = 0, []
    for bound, count in zip((*map(str, map(float, series.metric.buckets)), "+Inf"), series.counts, strict=True):
        total += count
        buckets.append((bound, total))
    family.add_metric(tuple(constant.values()), buckets, series.sum)
    return family
