"""Counts what the front end in shared memory sees."""

from tailrace.telemetry.answers import AnswerCounts
from tailrace.telemetry.catalogs import shm as catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["ShmMetrics"]

_OUTCOMES = ("complete", "cancelled", "stalled", "refused", "unavailable", "failed", "gone")


class ShmMetrics:
    """Written by the event loop's thread."""

    def __init__(self, answers: AnswerCounts) -> None:
        self._clients = Number(catalog.SHM_CLIENTS)
        self._requests = LabelledNumber(catalog.SHM_REQUESTS, [(outcome,) for outcome in _OUTCOMES])
        self._turned_away = LabelledNumber(catalog.TURNED_AWAY, [("full",), ("version",), ("nonsense",)])
        self._broken = Number(catalog.RULES_BROKEN)
        self.series: tuple[Series, ...] = tuple(vars(self).values())
        self.answers = answers

    def num_clients(self, count: int) -> None:
        """So many are connected now."""
        self._clients.value = count

    def request_ended(self, outcome: str) -> None:
        self._requests.add(1, outcome)

    def client_turned_away(self, reason: str) -> None:
        self._turned_away.add(1, reason)

    def rules_broken(self) -> None:
        self._broken.value += 1
