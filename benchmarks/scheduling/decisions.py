"""What it costs to decide who is next, beside more and more who wait.

    python -m benchmarks.scheduling.decisions [--turns N] [--json]

The queue alone, without cache or model: requests of all classes and of many tenants, some with targets of their own,
arrive as fast as others are admitted, in simulated time, so that they grow older, too. Microseconds of each operation,
and its median beside that in the shortest queue. The queues take turns, so that whatever else the machine does
falls on all of them. `abort` takes up to 10,000 out one after the other, in no order, and `first after` is the decision
that follows: both in CPU time, since over so long a time others take the processor away.
"""

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.serving.machine import describe_machine
from tailrace.classes import STANDARD
from tailrace.kvcache.block import BlockTable, Owner
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.queue import WaitingQueue
from tailrace.types import Request, SamplingParams, packed

SIZES = (100, 1_000, 10_000, 100_000)
NUM_ABORTED = 10_000
WAITING_A_TENANT = 20
TOKENS_PER_S = 10_000
MEAN_WORK = 1_000

_CLASSES = tuple(STANDARD)
_TABLE = BlockTable(Owner(b"", b"", b""))
_PROMPT = packed((1,))


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds of one operation each time."""

    push: float
    first: float
    admitted: float
    remove: float


@dataclass(frozen=True, slots=True)
class Storm:
    num_aborted: int
    abort_us: float  # of one
    first_after_us: float


class Crowd:
    """A queue in which always so many wait."""

    def __init__(self, num_waiting: int) -> None:
        self._queue = WaitingQueue(STANDARD)
        self._waiting: list[LiveRequest] = []
        self._places: dict[LiveRequest, int] = {}  # in that list
        self._source = random.Random(num_waiting)
        self._num_tenants = max(num_waiting // WAITING_A_TENANT, 2)
        self._num_arrived = 0
        self._now_s = 0.0
        for _ in range(num_waiting):
            self._now_s += MEAN_WORK / TOKENS_PER_S
            self._arrive()
            self._queue.first(self._now_s)  # as each step asks: so it learns how long waits are

    def __len__(self) -> int:
        return len(self._queue)

    def turn(self) -> Times:
        """Two requests come, one is admitted, one leaves."""
        self._arrive()
        push_us = self._arrive()
        begun_s = time.perf_counter()
        live = self._queue.first(self._now_s)
        decided_s = time.perf_counter()
        assert live is not None
        self._queue.admitted(live, live.work_tokens, self._now_s)
        admitted_s = time.perf_counter()
        self._forget(live)
        self._now_s += live.work_tokens / TOKENS_PER_S
        remove_us = self._leave(self._source.choice(self._waiting))
        return Times(push_us, _us(begun_s, decided_s), _us(decided_s, admitted_s), remove_us)

    def storm(self, num_aborted: int) -> Storm:
        """So many leave, and the next decision is made."""
        leaving = self._source.sample(self._waiting, num_aborted)
        begun_s = time.process_time()
        for live in leaving:
            self._queue.remove(live)
        gone_s = time.process_time()
        self._queue.first(self._now_s)
        after_s = time.process_time()
        for live in leaving:
            self._forget(live)
        return Storm(num_aborted, _us(begun_s, gone_s) / num_aborted, _us(gone_s, after_s))

    def _arrive(self) -> float:
        live = self._request()
        begun_s = time.perf_counter()
        self._queue.push(live)
        pushed_s = time.perf_counter()
        self._places[live] = len(self._waiting)
        self._waiting.append(live)
        return _us(begun_s, pushed_s)

    def _leave(self, live: LiveRequest) -> float:
        begun_s = time.perf_counter()
        self._queue.remove(live)
        gone_s = time.perf_counter()
        self._forget(live)
        return _us(begun_s, gone_s)

    def _forget(self, live: LiveRequest) -> None:
        place, last = self._places.pop(live), self._waiting.pop()
        if last is not live:
            self._waiting[place] = last
            self._places[last] = place

    def _request(self) -> LiveRequest:
        source = self._source
        self._num_arrived += 1
        service_class = source.choice(_CLASSES)
        tenant = f"tenant {source.randrange(self._num_tenants)}"
        ttft_s = service_class.ttft_s * source.choice((1.0, 1.0, 0.5, 3.0))
        request = Request(f"r{self._num_arrived}", _PROMPT, SamplingParams(1), self._now_s, tenant=tenant)
        return LiveRequest(
            request_id=request.request_id,
            request=request,
            arrival_rank=self._num_arrived,
            table=_TABLE,
            token_ids=_PROMPT,
            max_length=2,
            max_blocks=1,
            stop_ids=frozenset(),
            service_class=service_class,
            deadline_s=self._now_s + ttft_s,
            expires_s=self._now_s + service_class.queue_ttl_s,
            work_tokens=source.randint(1, 2 * MEAN_WORK),
        )


def take_turns(crowds: Sequence[Crowd], num_turns: int) -> list[list[Times]]:
    """The times of each crowd."""
    times: list[list[Times]] = [[] for _ in crowds]
    for _ in range(num_turns):
        for crowd, of_crowd in zip(crowds, times, strict=True):
            of_crowd.append(crowd.turn())
    return times


def row(times: Sequence[Times], shortest: Sequence[Times], storm: Storm) -> dict[str, float]:
    """Medians, the 99th percentiles, and the medians by those of the shortest queue."""
    figures = {}
    for name in Times.__slots__:
        values, least = sorted(getattr(each, name) for each in times), median(getattr(each, name) for each in shortest)
        figures[f"{name}_us"] = round(median(values), 2)
        figures[f"{name}_p99_us"] = round(values[int(len(values) * 0.99)], 2)
        figures[f"{name}_ratio"] = round(median(values) / least, 2)
    figures["abort_us"] = round(storm.abort_us, 2)
    figures["aborts_ms"] = round(storm.abort_us * storm.num_aborted / 1e3, 2)
    figures["first_after_us"] = round(storm.first_after_us, 2)
    return figures


def measure(sizes: Sequence[int], num_turns: int) -> dict[int, dict[str, float]]:
    """A row of figures for each size, the least first."""
    crowds = [Crowd(size) for size in sizes]
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        take_turns(crowds, num_turns // 10)
        times = take_turns(crowds, num_turns)
        storms = [crowd.storm(min(NUM_ABORTED, len(crowd) // 2)) for crowd in crowds]
    finally:
        gc.enable()
        gc.unfreeze()
    return {size: row(of_crowd, times[0], storm) for size, of_crowd, storm in zip(sizes, times, storms, strict=True)}


def _us(begun_s: float, ended_s: float) -> float:
    return (ended_s - begun_s) * 1e6


def _table(rows: dict[int, dict[str, float]]) -> str:
    names = Times.__slots__
    head = "".join(f"{name + ' us':>14}{'p99':>8}{'ratio':>7}" for name in names)
    lines = [f"{'waiting':>10}{head}{'abort us':>11}{'first after us':>16}"]
    for size, figures in rows.items():
        cells = "".join(
            f"{figures[f'{name}_us']:14.2f}{figures[f'{name}_p99_us']:8.2f}{figures[f'{name}_ratio']:7.2f}"
            for name in names
        )
        lines.append(f"{size:10,}{cells}{figures['abort_us']:11.2f}{figures['first_after_us']:16.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.decisions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=5_000, help="decisions timed in each queue [%(default)s]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure(SIZES, arguments.turns)
    if arguments.json:
        sys.stdout.write(json.dumps({"machine": describe_machine(), "rows": rows}, indent=2) + "\n")
        return
    print(f"{describe_machine()}; microseconds, medians of {arguments.turns:,}")
    print(_table(rows))


if __name__ == "__main__":
    main()
