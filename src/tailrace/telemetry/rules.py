"""How the rules of the server stand, and what they make of levels: read whenever somebody asks."""

from collections.abc import Callable, Sequence

from tailrace.records import RuleReport
from tailrace.telemetry.catalogs import rules as catalog
from tailrace.telemetry.series import LabelledNumber, Series
from tailrace.types import LevelMode

__all__ = ["RuleReports"]

_MODES = {"bypass": LevelMode.BYPASSED, "asynchronous": LevelMode.ASYNCHRONOUS}


class RuleReports:
    """There are none until `watch` has said where they are."""

    def __init__(self) -> None:
        self._read: Callable[[], Sequence[RuleReport]] = tuple
        self._mode = LabelledNumber(catalog.LEVEL_MODE)
        self.series: tuple[Series, ...] = (self._mode,)

    def watch(self, read: Callable[[], Sequence[RuleReport]]) -> None:
        """Take the reports from `read`, in any thread."""
        self._read = read

    def latest(self) -> list[RuleReport]:
        """Each rule, in the order in which they were listed."""
        return list(self._read())

    def level_modes(self) -> dict[str, LevelMode]:
        """How each level is used that a rule may act upon: of those that hold, the one listed last decides."""
        modes: dict[str, LevelMode] = {}
        for report in self._read():
            if report.action in _MODES:
                before = modes.get(report.target, LevelMode.NORMAL)
                modes[report.target] = _MODES[report.action] if report.is_active else before
        return modes

    def refresh(self) -> None:
        """Bring the series up to date."""
        for level, mode in self.level_modes().items():
            for each in LevelMode:
                self._mode.set(each is mode, level, each.value)
