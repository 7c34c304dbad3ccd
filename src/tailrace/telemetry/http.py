"""Counts what an HTTP front end sees: requests, clients that went away, and what waits for them."""

from tailrace.telemetry.answers import AnswerCounts
from tailrace.telemetry.catalogs import http as catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["HttpMetrics"]

_RESUMED = ("resumed", "expired", "unknown")
_PHASES = ("body", "waiting", "answering", "writing", "stalled")


class HttpMetrics:
    """Written by the event loop's thread. Routes are templates and statuses are ours, so labels stay bounded."""

    def __init__(self, answers: AnswerCounts) -> None:
        self._requests = LabelledNumber(catalog.HTTP_REQUESTS)
        self._in_flight = Number(catalog.HTTP_IN_FLIGHT)
        self._disconnects = LabelledNumber(catalog.CLIENT_DISCONNECTS, [(phase,) for phase in _PHASES])
        self._resumed = LabelledNumber(catalog.STREAMS_RESUMED, [(outcome,) for outcome in _RESUMED])
        self.buffered = Number(catalog.BUFFERED_BYTES)
        self.series: tuple[Series, ...] = tuple(vars(self).values())
        self.answers = answers

    def request_started(self) -> None:
        self._in_flight.value += 1

    def request_ended(self, route: str, status: int) -> None:
        self._in_flight.value -= 1
        self._requests.add(1, route, str(status))

    def client_gone(self, phase: str) -> None:
        self._disconnects.add(1, phase)

    def stream_resumed(self, outcome: str) -> None:
        """Somebody wanted to go on with a stream: resumed, expired or unknown."""
        self._resumed.add(1, outcome)
