"""Counts what became of spans that were to be sent."""

from tailrace.telemetry.catalogs import spans as catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["SpanCounts"]


class SpanCounts:
    """`dropped` is for the thread that makes spans, the others for the one that sends them."""

    def __init__(self) -> None:
        self._exported = Number(catalog.SPANS_EXPORTED)
        self._dropped = LabelledNumber(catalog.SPANS_DROPPED, [("full",), ("refused",)])
        self.series: tuple[Series, ...] = (self._exported, self._dropped)

    def dropped(self, num_spans: int) -> None:
        self._dropped.add(num_spans, "full")

    def refused(self, num_spans: int) -> None:
        self._dropped.add(num_spans, "refused")

    def exported(self, num_spans: int) -> None:
        self._exported.value += num_spans
