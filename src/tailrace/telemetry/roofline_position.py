"""Where the steps of the last minute lie under the ceilings of the machine, for the console.

Where none of them was timed, these are all timed steps since the start.
"""

from collections import deque
from collections.abc import Callable

from tailrace.telemetry.attribution import Attribution, Roof, attribute
from tailrace.telemetry.attribution_reading import AttributionReading, ServedOn, read_attribution
from tailrace.telemetry.feed.frame import OpLine, RooflineLine
from tailrace.telemetry.readings import Reading

__all__ = ["RooflinePosition"]

_KEPT_S = 60.0  # one step in 64 is timed: a few seconds may have none


class RooflinePosition:
    """`served` says what the server runs on, with the ceilings as they are known by now."""

    def __init__(self, served: Callable[[], ServedOn]) -> None:
        self._served = served
        self._readings: deque[AttributionReading] = deque()

    def line(self, sums: Reading) -> RooflineLine | None:
        """As of these; None before there are two readings, or where nothing is known of the machine, or of any step."""
        reading = read_attribution(sums, self._served())
        if self._readings and self._readings[-1].engine_pid != reading.engine_pid:
            self._readings.clear()
        self._readings.append(reading)
        while self._readings[0].at_s < reading.at_s - _KEPT_S:
            self._readings.popleft()
        first = self._readings[0]
        return _shown(attribute(first, reading)) if first.at_s < reading.at_s else None


def _shown(found: Attribution) -> RooflineLine | None:
    whole = found.whole
    if whole is None or whole.binds is None:
        return None
    ops = [OpLine(line.name, line.share, *_shares(line.roof)) for line in found.ops]
    return RooflineLine(*_shares(whole), "memory" if whole.binds == "memory" else "compute", ops)


def _shares(roof: Roof) -> tuple[float, float]:
    return roof.memory_share or 0.0, roof.arithmetic_share or 0.0
