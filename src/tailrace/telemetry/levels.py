"""What the levels below the engine hold and do: read from whoever counts it, whenever somebody looks."""

from collections.abc import Callable, Sequence

from tailrace.records import LevelReport
from tailrace.telemetry.catalogs import levels as catalog
from tailrace.telemetry.metric import Kind
from tailrace.telemetry.series import LabelledNumber

__all__ = ["LevelMetrics", "ReadReports"]

ReadReports = Callable[[], Sequence[LevelReport]]


class LevelMetrics:
    """Shows nothing until `watch` has said where the reports are, and nothing of an engine without levels."""

    def __init__(self) -> None:
        self._read: ReadReports = tuple
        self._numbers: tuple[tuple[LabelledNumber, Callable[[LevelReport], float]], ...] = (
            (LabelledNumber(catalog.LEVEL_UP), lambda report: report.is_working),
            (LabelledNumber(catalog.LEVEL_BLOCKS), lambda report: report.num_blocks),
            (LabelledNumber(catalog.LEVEL_BYTES), lambda report: report.num_bytes),
            (LabelledNumber(catalog.LEVEL_MAX_BYTES), lambda report: report.max_bytes),
            (LabelledNumber(catalog.LEVEL_EVICTED), lambda report: report.num_evicted_blocks),
            (LabelledNumber(catalog.LEVEL_CORRUPT), lambda report: report.num_corrupt_blocks),
            (LabelledNumber(catalog.LEVEL_FETCHED), lambda report: report.num_fetched_blocks),
            (LabelledNumber(catalog.LEVEL_FETCH_SECONDS), lambda report: report.fetch_s),
            (LabelledNumber(catalog.LEVEL_SAVED), lambda report: report.num_saved_blocks),
            (LabelledNumber(catalog.LEVEL_DROPPED), lambda report: report.num_dropped_blocks),
            (LabelledNumber(catalog.LEVEL_FAILURES), lambda report: report.num_failures),
            (LabelledNumber(catalog.LEVEL_FORGETS_PENDING), lambda report: report.num_forgets_pending),
        )
        self.series = tuple(number for number, _ in self._numbers)

    def watch(self, read: ReadReports) -> None:
        """Take the reports of what was done since this process began from `read`, in any thread."""
        self._read = read

    def refresh(self) -> None:
        """Bring the series up to date. What an engine before this one has counted stays in them."""
        for report in self._read():
            for number, value_of in self._numbers:
                take = number.follow if number.metric.kind is Kind.COUNTER else number.set
                take(value_of(report), report.level.value)
