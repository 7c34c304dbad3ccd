"""Earlier figures to compare with: times, which mean something on one machine only, and instruction counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.kernels.counting import Counts
from benchmarks.kernels.timing import Line

__all__ = ["BASELINE_FILE", "MAX_GROWTH", "Baseline", "Change", "Setting", "Timing", "timings"]

BASELINE_FILE = Path(__file__).with_name("baseline.json")
MAX_GROWTH = 0.02  # of a count, before it is an error
_LEAST_NOISE = 0.05  # of a time, however steady its rounds were
_LEAST_CHANGE_MS = 0.01


@dataclass(frozen=True, slots=True)
class Setting:
    """What times depend on beside the code."""

    processor: str
    isa: str
    kv_format: str
    num_threads: int

    def __str__(self) -> str:
        return f"{self.processor}, {self.isa}, {self.kv_format} KV, {self.num_threads} threads"


@dataclass(frozen=True, slots=True)
class Timing:
    """As in a `Line`; `ceiling_share` is zero for an op that neither reads weights nor multiplies."""

    time_ms: float
    spread: float
    ceiling_share: float


@dataclass(frozen=True, slots=True)
class Change:
    """A figure divided by that of the baseline; None where the baseline has none."""

    ratio: float | None
    is_notable: bool = False  # for a time: beyond the noise of both runs, ceilings too; for a count: beyond MAX_GROWTH

    @property
    def text(self) -> str:
        if self.ratio is None:
            return "new"
        mark = "" if not self.is_notable else " worse" if self.ratio > 1 else " better"
        return f"{self.ratio:.3f}x{mark}"

    @property
    def is_worse(self) -> bool:
        return self.is_notable and self.ratio is not None and self.ratio > 1


@dataclass(frozen=True, slots=True)
class Baseline:
    """`times` by `Line.key`, `counts` by counter and instruction set."""

    setting: Setting
    date: str
    read_gbytes_per_s: float
    dot_tops: float
    times: dict[str, Timing]
    counts: dict[str, Counts]

    @classmethod
    def read(cls, path: Path = BASELINE_FILE) -> "Baseline | None":
        """The committed one; None before there is any. Raises msgspec.ValidationError when the file is not one."""
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else None

    def write(self, path: Path = BASELINE_FILE) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    def change_of_time(self, line: Line) -> Change:
        before = self.times.get(line.key)
        if before is None:
            return Change(None)
        noise = max(_LEAST_NOISE, line.spread, before.spread)
        ratio = line.time_ms / before.time_ms
        # A machine that is slower today is slower at its ceilings too: the op is worse only if it is so beside them.
        relative = before.ceiling_share / line.ceiling_share if before.ceiling_share and line.ceiling_share else ratio
        is_beyond = min(ratio, relative) > 1 + noise or max(ratio, relative) < 1 / (1 + noise)
        return Change(ratio, is_beyond and abs(line.time_ms - before.time_ms) > _LEAST_CHANGE_MS)

    def change_of_count(self, counter: str, name: str, count: int) -> Change:
        before = self.counts[counter].instructions.get(name) if counter in self.counts else None
        if before is None:
            return Change(None)
        ratio = count / before
        return Change(ratio, abs(ratio - 1) > MAX_GROWTH)

    def why_no_times(self, setting: Setting) -> str | None:
        """Why times are not compared, or None when they are."""
        if setting == self.setting:
            return None
        return (
            "times are not compared: the baseline is of another setting\n"
            f"  here      {setting}\n"
            f"  baseline  {self.setting}"
        )

    def why_no_counts(self, counter: str, compiler: str) -> str | None:
        """Why counts are shown and not judged, or None when they are."""
        if counter not in self.counts:
            return f"{counter}: the baseline has no such counts"
        if self.counts[counter].compiler != compiler:
            return f"{counter}: built by {compiler}, the baseline by {self.counts[counter].compiler}"
        return None


def timings(lines: Iterable[Line]) -> dict[str, Timing]:
    return {
        line.key: Timing(round(line.time_ms, 5), round(line.spread, 3), round(line.ceiling_share, 4)) for line in lines
    }
