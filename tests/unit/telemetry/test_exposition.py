"""What is written is what Prometheus' own library writes of the same values, and what it reads."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.registry import Collector

from tailrace.telemetry.exposition import Shown, exposition
from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.series import Histogram, LabelledHistogram, LabelledNumber, Number

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
ODD = 'a"b\\c\nd'
FORMATS = [("text/plain", read_text), (OPEN_METRICS, read_open_metrics)]

Read = Callable[[str], Iterable[Family]]


class Theirs(Collector):
    """The same values as `ours`."""

    def collect(self) -> Iterable[Family]:
        plain = GaugeMetricFamily("g", 'A gauge.\nIn two lines \\ with "quotes".', value=1 / 3)
        counter = CounterMetricFamily("c", "A counter.", labels=("zone", "a"))
        counter.add_metric(("x", ODD), 5)
        counter.add_metric(("y", ""), 1e21)
        histogram = HistogramMetricFamily("h", "A histogram.", labels=("fixed", "x"))
        histogram.add_metric(("f", "m"), [("0.5", 1), ("2.0", 3), ("+Inf", 4)], 12.25)
        histogram.add_metric(("f", "n"), [("0.5", 0), ("2.0", 0), ("+Inf", 0)], 0)
        return [plain, counter, histogram]


def ours() -> list[Shown]:
    gauge = Number(Metric("g", Kind.GAUGE, "", 'A gauge.\nIn two lines \\ with "quotes".'))
    gauge.value = 1 / 3
    counter = LabelledNumber(Metric("c", Kind.COUNTER, "", "A counter.", labels=("zone", "a")))
    counter.add(5, "x", ODD)
    counter.add(1e21, "y", "")
    metric = Metric("other_name", Kind.HISTOGRAM, "", "A histogram.", labels=("x",), buckets=(0.5, 2))
    histogram = LabelledHistogram(metric, [("m",), ("n",)])
    for value in (0.5, 0.75, 2, 9):
        histogram.of("m").observe(value)
    return [Shown("g", gauge), Shown("c", counter), Shown("h", histogram, (("fixed", "f"),))]


@pytest.mark.parametrize(("accept", "read"), FORMATS)
def test_the_same_values_read_the_same(accept: str, read: Read) -> None:
    registry = CollectorRegistry()
    registry.register(Theirs())
    encode, content_type = choose_encoder(accept)
    body, our_type = exposition(ours(), accept)
    assert list(read(body.decode())) == list(read(encode(registry).decode()))
    assert content_type.startswith(our_type)


@pytest.mark.parametrize(("accept", "read"), FORMATS)
def test_a_family_without_values_yet_can_be_read(accept: str, read: Read) -> None:
    body, _ = exposition([Shown("c", LabelledNumber(Metric("c", Kind.COUNTER, "", "Help.", ("x",))))], accept)
    (family,) = read(body.decode())
    assert (family.name, family.type, family.samples) == ("c", "counter", [])


def test_an_exemplar_stands_behind_its_bucket() -> None:
    histogram = Histogram(Metric("h", Kind.HISTOGRAM, "seconds", "Help.", buckets=(0.5, 2)))
    histogram.observe_traced(0.75, "0af7651916cd43dd8448eb211c80319c", 1_700_000_000.125)
    histogram.observe(0.25)
    body, _ = exposition([Shown("h", histogram)], OPEN_METRICS)
    (family,) = read_open_metrics(body.decode())
    exemplars = {sample.labels["le"]: sample.exemplar for sample in family.samples if "le" in sample.labels}
    assert exemplars["0.5"] is None
    assert exemplars["+Inf"] is None
    exemplar = exemplars["2.0"]
    assert exemplar is not None
    assert exemplar.labels == {"trace_id": "0af7651916cd43dd8448eb211c80319c"}
    assert (exemplar.value, float(exemplar.timestamp)) == (0.75, 1_700_000_000.125)
