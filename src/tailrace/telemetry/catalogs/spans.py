"""Metrics of the spans that are sent to a collector; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["SPANS_DROPPED", "SPANS_EXPORTED", "SPAN_CATALOG"]

SPANS_EXPORTED = Metric(
    "tailrace_spans_exported",
    Kind.COUNTER,
    "spans",
    "Spans that the collector of --otlp has taken.",
)
SPANS_DROPPED = Metric(
    "tailrace_spans_dropped",
    Kind.COUNTER,
    "spans",
    "Spans that nobody has: full (too many waited for the collector of --otlp), refused (it did not take them).",
    labels=("reason",),
)

SPAN_CATALOG = (SPANS_EXPORTED, SPANS_DROPPED)
