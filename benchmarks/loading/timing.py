"""Time and processor time of a call, and the rates that come of several."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self

__all__ = ["Rate", "Times", "timed"]


@dataclass(frozen=True, slots=True)
class Times:
    wall_s: float
    cpu_s: float  # of all threads: what others on the machine take is not in it

    def __truediv__(self, count: int) -> "Times":
        return Times(self.wall_s / count, self.cpu_s / count)


@dataclass(frozen=True, slots=True)
class Rate:
    """A second."""

    wall: float
    cpu: float

    @classmethod
    def of(cls, times: Sequence[Times]) -> Self:
        """The medians of what one of them takes."""
        return cls(1 / median(each.wall_s for each in times), 1 / median(each.cpu_s for each in times))


def timed(call: Callable[[], object]) -> Times:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    call()
    return Times(time.perf_counter() - wall_s, time.process_time() - cpu_s)
