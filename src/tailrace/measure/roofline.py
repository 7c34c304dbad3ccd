"""Measures what a machine does at best: how fast it reads working sets of several sizes, and how fast it multiplies.

Each figure is the best of many short tries, in two rounds with everything else between them: how far the two are apart
says whether the machine was busy.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tailrace.measure.caches import Cache
from tailrace.ops.ceilings import Gauge
from tailrace.telemetry.roofline import Ceilings, Machine, ReadRate, Roofline
from tailrace.version import __version__

__all__ = ["NOISY_SPREAD", "MeasuringPlan", "measure_roofline", "thread_counts", "working_sets"]

NOISY_SPREAD = 0.15
"""Two measurements of the same that are this far apart are no measurement."""

_STEP = 4  # times the size before
_BEYOND_CACHES = 4  # times the last cache
_LEAST_MEMORY_BYTES, _MOST_MEMORY_BYTES = 256 << 20, 1 << 30
_MEMORY_SHARE = 0.25  # of what is free
_ROUNDS = 2
_WHOLE_S, _LEAST_TRIES_S, _MOST_TRIES_S = 9.0, 0.02, 0.25
_LEAST_TRIES = 3
_TRY_S = 0.002  # of multiplying: many times as long as it takes to wake a thread
_FIRST_COUNT = 1 << 16

MakeGauge = Callable[[int, int], Gauge]  # of so many threads, and most bytes
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WorkingSet:
    where: str
    num_bytes: int


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """What is measured: on which machine, with which numbers of threads, beside which caches."""

    machine: Machine
    thread_counts: Sequence[int]
    caches: Sequence[Cache]
    free_bytes: int


def thread_counts(num_cpus: int) -> list[int]:
    """Powers of two, and all."""
    return [count for count in (1 << power for power in range(num_cpus.bit_length())) if count < num_cpus] + [num_cpus]


def working_sets(caches: Sequence[Cache], num_threads: int, free_bytes: int) -> list[WorkingSet]:
    """One well within each cache, ascending, and one that no cache holds, unless there is no memory for it.

    Where two are far apart there are some between them: rates fall steeply somewhere, and models are of every size.
    """
    largest = caches[-1].num_bytes if caches else 0
    beyond = min(
        max(_BEYOND_CACHES * largest, _LEAST_MEMORY_BYTES), _MOST_MEMORY_BYTES, int(free_bytes * _MEMORY_SHARE)
    )
    sets: list[WorkingSet] = []
    for cache in caches:
        num_bytes = cache.num_bytes // 2 * (1 if cache.is_shared else num_threads)
        if num_bytes * 2 <= beyond and (not sets or num_bytes >= 2 * sets[-1].num_bytes):
            sets += _steps_to(sets, f"L{cache.level}", num_bytes)
    return [*sets, *_steps_to(sets, "memory", beyond)]


def _steps_to(sets: Sequence[WorkingSet], where: str, num_bytes: int) -> Iterator[WorkingSet]:
    """From the largest so far."""
    step = _STEP * (sets[-1].num_bytes if sets else num_bytes)
    while 2 * step <= num_bytes:
        yield WorkingSet(where, step)
        step *= _STEP
    yield WorkingSet(where, num_bytes)


def measure_roofline(
    plan: MeasuringPlan,
    make_gauge: MakeGauge,
    progress: Progress = lambda _done, _total: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Roofline:
    """Take some ten seconds of the whole machine."""
    measured: list[Ceilings] = []
    spreads: list[tuple[float, str]] = []
    for index, num_threads in enumerate(plan.thread_counts):
        sets = working_sets(plan.caches, num_threads, plan.free_bytes)
        probes = _Probes(make_gauge(num_threads, sets[-1].num_bytes), sets, num_threads)
        tries_s = _WHOLE_S / (len(plan.thread_counts) * _ROUNDS * probes.num_figures)
        rounds = []
        for number in range(_ROUNDS):
            progress(index * _ROUNDS + number, len(plan.thread_counts) * _ROUNDS)
            rounds.append(probes.measure(min(max(tries_s, _LEAST_TRIES_S), _MOST_TRIES_S), clock))
        measured.append(probes.ceilings([max(figures) for figures in zip(*rounds, strict=True)]))
        spreads += zip(map(_spread, zip(*rounds, strict=True)), probes.names(), strict=True)
    progress(1, 1)
    spread, noisiest = max(spreads)
    return Roofline(plan.machine, __version__, time.time(), spread, noisiest, tuple(measured))


def _spread(figures: Sequence[float]) -> float:
    return 1.0 - min(figures) / max(figures)


@dataclass(frozen=True, slots=True)
class _Probes:
    """Everything that is measured with one number of threads, in one order."""

    gauge: Gauge
    sets: Sequence[WorkingSet]
    num_threads: int

    @property
    def num_figures(self) -> int:
        return len(self.sets) + len(self.gauge.numbers)

    def names(self) -> Iterator[str]:
        threads = "1 thread" if self.num_threads == 1 else f"{self.num_threads} threads"
        yield from (f"reading from {each.where} with {threads}" for each in self.sets)
        yield from (f"multiplying {numbers} with {threads}" for numbers in self.gauge.numbers)

    def measure(self, tries_s: float, clock: Callable[[], float]) -> list[float]:
        reads = [_best(partial(self.gauge.read, each.num_bytes), tries_s, clock) for each in self.sets]
        return reads + [self._multiplying(numbers, tries_s, clock) for numbers in self.gauge.numbers]

    def _multiplying(self, numbers: str, tries_s: float, clock: Callable[[], float]) -> float:
        multiply = partial(self.gauge.multiply, numbers)
        return _best(partial(multiply, _count_for(multiply, clock)), tries_s, clock)

    def ceilings(self, figures: Sequence[float]) -> Ceilings:
        reads = zip(self.sets, figures[: len(self.sets)], strict=True)
        rates = zip(self.gauge.numbers, figures[len(self.sets) :], strict=True)
        return Ceilings(
            self.num_threads,
            tuple(ReadRate(each.where, each.num_bytes, rate) for each, rate in reads),
            dict(rates),
        )


def _best(one_try: Callable[[], float], tries_s: float, clock: Callable[[], float]) -> float:
    ends_s = clock() + tries_s
    rates = [one_try() for _ in range(_LEAST_TRIES)]
    while clock() < ends_s:
        rates.append(one_try())
    return max(rates)


def _count_for(multiply: Callable[[int], float], clock: Callable[[], float]) -> int:
    """So many products as take long enough to be timed."""
    count = _FIRST_COUNT
    while True:
        started_s = clock()
        multiply(count)
        if clock() - started_s >= _TRY_S:
            return count
        count *= 2
