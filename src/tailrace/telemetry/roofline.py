"""What a machine does at best: rates of reading and of arithmetic, for each number of threads. Plain figures.

What a machine does is measured by `measure.roofline`; what a server does is held against it by `attribution`.
"""

from collections.abc import Sequence
from math import log

import msgspec

__all__ = ["FEW_ROWS", "Ceilings", "Machine", "ReadRate", "Roofline"]

FEW_ROWS = "int8 few rows"
"""Codes that are multiplied by too few rows for matrix units, where there are such units."""


class Machine(msgspec.Struct, frozen=True):
    """What decides the ceilings."""

    cpu: str  # the name of its processor
    instruction_set: str
    num_cpus: int  # that this process may use


class ReadRate(msgspec.Struct, frozen=True):
    """How fast all threads together read so many bytes again and again."""

    where: str  # L1, L2, L3 or memory, by the size
    num_bytes: int
    bytes_per_s: float


class Ceilings(msgspec.Struct, frozen=True):
    """Of one number of threads. `reads` are in ascending order of their bytes, and there is one."""

    num_threads: int
    reads: tuple[ReadRate, ...]
    ops_per_s: dict[str, float]  # by kind of numbers: int8, bf16, f32; multiplications and additions both count

    @property
    def memory_bytes_per_s(self) -> float:
        """Of what no cache holds."""
        return self.reads[-1].bytes_per_s

    def read_bytes_per_s(self, num_bytes: float) -> float:
        """Of a working set of this size. Between two that were measured both scales are logarithmic."""
        for smaller, larger in zip(self.reads, self.reads[1:], strict=False):
            if num_bytes < larger.num_bytes:
                return _between(smaller, larger, num_bytes)
        return self.memory_bytes_per_s

    def peak(self, numbers: str) -> float | None:
        """Operations a second on such numbers."""
        return self.ops_per_s.get(numbers)


def _between(smaller: ReadRate, larger: ReadRate, num_bytes: float) -> float:
    if num_bytes <= smaller.num_bytes:
        return smaller.bytes_per_s
    share = log(num_bytes / smaller.num_bytes) / log(larger.num_bytes / smaller.num_bytes)
    ratio: float = (larger.bytes_per_s / smaller.bytes_per_s) ** share
    return smaller.bytes_per_s * ratio


class Roofline(msgspec.Struct, frozen=True):
    """The ceilings of a machine. `spread` is how far two measurements of the same were apart at worst, 0 to 1."""

    machine: Machine
    version: str  # of tailrace, whose kernels multiply
    measured_at_s: float  # since 1970
    spread: float
    noisiest: str  # what was measured with that spread
    threads: tuple[Ceilings, ...]  # ascending, and there is one

    def of(self, num_threads: int) -> Ceilings:
        """With as many threads, or the most that were measured below; else with the fewest."""
        fitting = [each for each in self.threads if each.num_threads <= num_threads]
        return fitting[-1] if fitting else self.threads[0]

    def covers(self, thread_counts: Sequence[int]) -> bool:
        """Whether all these numbers of threads were measured."""
        return set(thread_counts) <= {each.num_threads for each in self.threads}
