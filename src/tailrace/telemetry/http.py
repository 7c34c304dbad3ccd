"""Counts what an HTTP front end sees: requests, clients that went away, and the gaps that users feel."""

from tailrace.telemetry import catalog
from tailrace.telemetry.series import Histogram, LabelledNumber, Number, Series

__all__ = ["HttpMetrics"]


class HttpMetrics:
    """Written by the event loop's thread. Routes are templates and statuses are ours, so labels stay bounded."""

    def __init__(self) -> None:
        self._gaps = Histogram(catalog.TOKEN_GAP_SECONDS)
        self._first_text = Histogram(catalog.HTTP_FIRST_TEXT_SECONDS)
        self._requests = LabelledNumber(catalog.HTTP_REQUESTS)
        self._in_flight = Number(catalog.HTTP_IN_FLIGHT)
        self._disconnects = LabelledNumber(catalog.CLIENT_DISCONNECTS, [("body",), ("waiting",), ("answering",)])
        self.series: tuple[Series, ...] = tuple(vars(self).values())
        self.observe_gap = self._gaps.observe
        self.observe_first_text = self._first_text.observe

    def request_started(self) -> None:
        self._in_flight.value += 1

    def request_ended(self, route: str, status: int) -> None:
        self._in_flight.value -= 1
        self._requests.add(1, route, str(status))

    def client_gone(self, phase: str) -> None:
        self._disconnects.add(1, phase)
