"""Where the step loop's time goes, asked of it when somebody looks."""

from collections.abc import Callable, Mapping

from tailrace.records import EnginePart
from tailrace.telemetry.catalogs.engine_time import ENGINE_SECONDS
from tailrace.telemetry.series import LabelledNumber, Series

__all__ = ["EngineTime"]


class EngineTime:
    """Adds what the loop that is watched has spent to what the loops before it had."""

    def __init__(self) -> None:
        self._read: Callable[[], Mapping[str, float]] = dict
        self._seen: dict[str, float] = {}
        self._seconds = LabelledNumber(ENGINE_SECONDS, [(part.name.lower(),) for part in EnginePart])
        self.series: tuple[Series, ...] = (self._seconds,)

    def watch(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Ask `read` for the seconds of each part since the loop began, in any thread."""
        self._read = read

    def refresh(self) -> None:
        """Bring the seconds up to date. None goes back, even where the loop was just about to say what it begins."""
        for part, seconds in self._read().items():
            gain = seconds - self._seen.get(part, 0.0)
            if gain > 0.0:
                self._seconds.add(gain, part)
                self._seen[part] = seconds
