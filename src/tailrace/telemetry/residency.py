"""Experts that are loaded when they are chosen: how often they were there, read whenever somebody looks."""

from collections.abc import Callable

from tailrace.records import ResidencyCounts
from tailrace.telemetry.catalogs import residency as catalog
from tailrace.telemetry.series import LabelledNumber, Series

__all__ = ["ResidencyMetrics"]


class ResidencyMetrics:
    """Shows nothing until `watch` has said where the counts are, and where all experts are in memory."""

    def __init__(self) -> None:
        self._read: Callable[[], ResidencyCounts | None] = lambda: None
        self._seen = ResidencyCounts()
        self._chosen = LabelledNumber(catalog.EXPERTS_CHOSEN)
        self._evicted = LabelledNumber(catalog.EXPERTS_EVICTED)
        self._foreseen = LabelledNumber(catalog.EXPERTS_FORESEEN)
        self._waited = LabelledNumber(catalog.EXPERT_WAIT_SECONDS)
        self._resident = LabelledNumber(catalog.EXPERTS_RESIDENT)
        self._bytes = LabelledNumber(catalog.EXPERT_RESIDENT_BYTES)
        self.series: tuple[Series, ...] = (
            self._chosen,
            self._evicted,
            self._foreseen,
            self._waited,
            self._resident,
            self._bytes,
        )

    def watch(self, read: Callable[[], ResidencyCounts | None]) -> None:
        """Take the counts since the engine was started from `read`, in any thread."""
        self._read = read

    def refresh(self) -> None:
        """Bring the series up to date. What an engine before this one has counted stays in them."""
        if (now := self._read()) is None:
            return
        before, self._seen = self._seen, now
        self._chosen.add(now.hits - before.hits, "hit")
        self._chosen.add(now.misses - before.misses, "miss")
        self._evicted.add(now.evictions - before.evictions)
        self._foreseen.add(now.foreseen - before.foreseen, "loaded")
        self._foreseen.add(now.foreseen_hits - before.foreseen_hits, "hit")
        self._waited.add(now.waited_s - before.waited_s)
        self._resident.set(now.num_resident)
        self._bytes.set(now.resident_bytes)
