"""Counts what an HTTP front end sees: requests, clients that went away, and the gaps that users feel."""

from tailrace.classes import ServiceClasses
from tailrace.errors import RefusalReason
from tailrace.telemetry import catalog, class_catalog
from tailrace.telemetry.series import Histogram, LabelledHistogram, LabelledNumber, Number, Series

__all__ = ["HttpMetrics"]

_PHASES = ("body", "waiting", "answering", "writing", "stalled")


class HttpMetrics:
    """Written by the event loop's thread. Routes are templates and statuses are ours, so labels stay bounded."""

    def __init__(self, classes: ServiceClasses) -> None:
        names = [each.name for each in classes]
        refusals = [(name, reason.value) for name in names for reason in RefusalReason]
        self._gaps = LabelledHistogram(catalog.TOKEN_GAP_SECONDS, [(name,) for name in names])
        self._refused = LabelledNumber(class_catalog.REFUSED, refusals)
        self._first_text = Histogram(catalog.HTTP_FIRST_TEXT_SECONDS)
        self._requests = LabelledNumber(catalog.HTTP_REQUESTS)
        self._in_flight = Number(catalog.HTTP_IN_FLIGHT)
        self._disconnects = LabelledNumber(catalog.CLIENT_DISCONNECTS, [(phase,) for phase in _PHASES])
        self.coalesced = Number(catalog.COALESCED_TOKENS)
        self.buffered = Number(catalog.BUFFERED_BYTES)
        self.series: tuple[Series, ...] = tuple(vars(self).values())
        self.observe_first_text = self._first_text.observe

    def request_started(self) -> None:
        self._in_flight.value += 1

    def request_ended(self, route: str, status: int) -> None:
        self._in_flight.value -= 1
        self._requests.add(1, route, str(status))

    def request_refused(self, class_name: str, reason: RefusalReason) -> None:
        self._refused.add(1, class_name, reason.value)

    def gaps_of(self, class_name: str) -> Histogram:
        """Where the gaps of a class's answers are counted."""
        return self._gaps.of(class_name)

    def client_gone(self, phase: str) -> None:
        self._disconnects.add(1, phase)
