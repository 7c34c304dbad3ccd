"""Counts what a gRPC front end sees."""

from tailrace.telemetry.answers import AnswerCounts
from tailrace.telemetry.catalogs import grpc as grpc_catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["GrpcMetrics"]


class GrpcMetrics:
    """Written by the event loop's thread. Methods are those that are served, so labels stay bounded."""

    def __init__(self, answers: AnswerCounts) -> None:
        self._calls = LabelledNumber(grpc_catalog.GRPC_CALLS)
        self._in_flight = Number(grpc_catalog.GRPC_IN_FLIGHT)
        self.series: tuple[Series, ...] = (self._calls, self._in_flight)
        self.answers = answers

    def call_started(self) -> None:
        self._in_flight.value += 1

    def call_ended(self, method: str, status: str) -> None:
        self._in_flight.value -= 1
        self._calls.add(1, method, status)
