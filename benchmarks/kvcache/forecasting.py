"""How well arrivals are foretold: Holt-Winters with and without its season against the last value, on a trace.

    python -m benchmarks.kvcache.forecasting --trace AzureLLMInferenceTrace_conv.csv [--bin 10] [--season 30] [--json]

The trace is a CSV file with a column TIMESTAMP. Arrivals are counted a bin; from the end of the first season on, each
forecaster says what the next bin counts, and what the next six do together. The traces at hand last an hour, so the
season of a day is scaled down to `--season` bins: an hour has no real season, and none should be expected to help.
"""

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Protocol

from tailrace.kvcache.forecast import Forecast, ForecastConfig

__all__ = ["Errors", "arrivals_per_bin", "compare"]

AHEAD = 6


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean absolute error and root of the mean squared error, as shares of the mean count."""

    forecaster: str
    num_bins: int  # foretold together
    mae: float
    rmse: float


def arrivals_per_bin(path: Path, bin_s: float) -> list[float]:
    with path.open(newline="") as file:
        times = [datetime.fromisoformat(row["TIMESTAMP"]).timestamp() for row in csv.DictReader(file)]
    counts = [0.0] * (int((times[-1] - times[0]) / bin_s) + 1)
    for at_s in times:
        counts[int((at_s - times[0]) / bin_s)] += 1
    return counts[:-1]  # the last is cut short


class Series(Protocol):
    """Counts so far, and what comes next."""

    def observe(self, count: float) -> None: ...

    def next(self, ahead: int = 1) -> float: ...


class ValueBefore:
    """Says what came so many bins before."""

    def __init__(self, num_bins: int) -> None:
        self._num_bins = num_bins
        self._counts: list[float] = []

    def observe(self, count: float) -> None:
        self._counts.append(count)

    def next(self, ahead: int = 1) -> float:
        """Of the bins that are over, the latest in the same place of its season."""
        return self._counts[-1 - (self._num_bins - ahead) % self._num_bins]


class Mean:
    def __init__(self) -> None:
        self._counts: list[float] = []

    def observe(self, count: float) -> None:
        self._counts.append(count)

    def next(self, ahead: int = 1) -> float:
        return fmean(self._counts)


def compare(counts: Sequence[float], season_bins: int) -> list[Errors]:
    """Errors of each forecaster, for the next bin and for the next six together."""
    makers: dict[str, Callable[[], Series]] = {
        "Holt-Winters": lambda: Forecast(ForecastConfig(season_bins)),
        "Holt, no season": lambda: Forecast(ForecastConfig(len(counts) + 1)),
        "last value": lambda: ValueBefore(1),
        "value a season before": lambda: ValueBefore(season_bins),
        "mean so far": Mean,
    }
    return [
        errors(name, make(), counts, season_bins, num_bins) for num_bins in (1, AHEAD) for name, make in makers.items()
    ]


def errors(name: str, series: Series, counts: Sequence[float], first: int, num_bins: int) -> Errors:
    """Foretell every sum of `num_bins` counts from the bin `first` on."""
    off = []
    for index, count in enumerate(counts):
        if first <= index <= len(counts) - num_bins:
            said = sum(series.next(ahead) for ahead in range(1, num_bins + 1))
            off.append(said - sum(counts[index : index + num_bins]))
        series.observe(count)
    scale = fmean(counts) * num_bins
    return Errors(name, num_bins, fmean(map(abs, off)) / scale, math.sqrt(fmean(one * one for one in off)) / scale)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.forecasting",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--bin", type=float, default=10.0, help="seconds")
    parser.add_argument("--season", type=int, default=30, help="bins")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counts = arrivals_per_bin(arguments.trace, arguments.bin)
    rows = compare(counts, arguments.season)
    if arguments.json:
        figures = {"bin_s": arguments.bin, "season_bins": arguments.season, "rows": [asdict(row) for row in rows]}
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
        return
    print(f"{sum(counts):,.0f} arrivals in {len(counts)} bins of {arguments.bin:g} s; errors as shares of the mean")
    for row in rows:
        print(
            f"next {row.num_bins}: {row.forecaster:24} mean absolute {row.mae:6.1%}   root mean square {row.rmse:6.1%}"
        )


if __name__ == "__main__":
    main()
