"""Steps of tokens from one process to another, and when each was sent and had arrived."""

import mmap
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from statistics import median, quantiles

from benchmarks.ring.transport import Mode, Transport, step_of

__all__ = ["Figures", "Load", "Run", "figures_of", "measure"]

_WARM_UP = 0.1  # of the steps
_GIVE_UP_S = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    num_steps: int
    num_tokens: int  # a step
    period_s: float  # from step to step


@dataclass(frozen=True, slots=True)
class Run:
    """Of each step but the first ones: seconds from before it is sent until its reader has it as objects, and those
    that sending took; and the processor time of both processes for all steps, without what pacing takes."""

    latencies_s: Sequence[float]
    sends_s: Sequence[float]
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    p50_us: float
    p99_us: float
    send_us: float  # median: what the step loop waits for
    cpu_us: float  # of both processes, for 1,000 tokens


class _Sheet:
    """What both processes write down, in memory that they share."""

    def __init__(self, num_steps: int) -> None:
        self.sent_ns = self._words(num_steps)
        self.handed_over_ns = self._words(num_steps)
        self.arrived_ns = self._words(num_steps)
        self.cpu_ns = self._words(2)
        self._reader, self._writer = os.pipe()

    @staticmethod
    def _words(count: int) -> memoryview:
        return memoryview(mmap.mmap(-1, 8 * count)).cast("q")

    def is_open(self) -> None:
        """Said by a process that is there."""
        os.write(self._writer, b".")

    def wait_until_open(self) -> None:
        os.read(self._reader, 1)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


def measure(transport: Transport, mode: Mode, load: Load) -> Run:
    """Raises ChildProcessError when a process fails or the tokens do not arrive."""
    sheet = _Sheet(load.num_steps)
    processes = []
    try:
        for end in (_send, _receive):
            processes.append(_start(end, transport, mode, load, sheet))
            sheet.wait_until_open()
        for process in reversed(processes):
            process.join(_GIVE_UP_S + load.num_steps * load.period_s)
            if process.exitcode != 0:
                raise ChildProcessError(f"{type(transport).__name__}, {mode}: a process ended with {process.exitcode}")
    finally:
        for process in processes:
            process.kill()
            process.join()
        sheet.close()
    return _read_off(sheet, load)


_End = Callable[[Transport, Mode, Load, _Sheet], None]


def _start(end: _End, transport: Transport, mode: Mode, load: Load, sheet: _Sheet) -> ForkProcess:
    process = get_context("fork").Process(target=_run, args=(end, transport, mode, load, sheet), daemon=True)
    process.start()
    return process


def _run(end: _End, transport: Transport, mode: Mode, load: Load, sheet: _Sheet) -> None:
    try:
        end(transport, mode, load, sheet)
    except BaseException:
        sheet.is_open()  # who waits for it sees its exit status
        raise
    os._exit(0)  # libraries may have threads that would be waited for


def _send(transport: Transport, _: Mode, load: Load, sheet: _Sheet) -> None:
    step, sender = step_of(load.num_tokens), transport.sender(load.num_tokens)
    sheet.is_open()
    pacing_ns = _cpu_ns(lambda: _pace(load, lambda _: None))

    def send(index: int) -> None:
        sheet.sent_ns[index] = time.monotonic_ns()
        sender.send(step)
        sheet.handed_over_ns[index] = time.monotonic_ns()

    sheet.cpu_ns[0] = _cpu_ns(lambda: _pace(load, send)) - pacing_ns
    _wait_for_the_last(sheet)


def _wait_for_the_last(sheet: _Sheet) -> None:
    end_s = time.monotonic() + _GIVE_UP_S
    while not sheet.cpu_ns[1] and time.monotonic() < end_s:
        time.sleep(0.001)


def _pace(load: Load, send: Callable[[int], None]) -> None:
    next_s = time.monotonic()
    for index in range(load.num_steps):
        next_s += load.period_s
        time.sleep(max(next_s - time.monotonic(), 0.0))
        send(index)


def _cpu_ns(work: Callable[[], None]) -> int:
    """Of all threads of this process, while it runs."""
    before = time.process_time_ns()
    work()
    return time.process_time_ns() - before


def _receive(transport: Transport, mode: Mode, load: Load, sheet: _Sheet) -> None:
    receiver = transport.receiver(mode)
    sheet.is_open()
    num_read = num_arrived = 0

    def took(count: int) -> bool:
        nonlocal num_read, num_arrived
        if count == 0:
            return True
        now_ns = time.monotonic_ns()
        num_read += count
        while num_arrived < num_read // load.num_tokens:
            sheet.arrived_ns[num_arrived] = now_ns
            num_arrived += 1
        return num_arrived < load.num_steps

    sheet.cpu_ns[1] = _cpu_ns(lambda: receiver.run(took))


def _read_off(sheet: _Sheet, load: Load) -> Run:
    steps = range(int(load.num_steps * _WARM_UP), load.num_steps)
    return Run(
        [(sheet.arrived_ns[step] - sheet.sent_ns[step]) / 1e9 for step in steps],
        [(sheet.handed_over_ns[step] - sheet.sent_ns[step]) / 1e9 for step in steps],
        sum(sheet.cpu_ns) / 1e9,
    )


def figures_of(runs: Sequence[Run], load: Load) -> Figures:
    latencies_s = [latency for run in runs for latency in run.latencies_s]
    thousands = load.num_steps * load.num_tokens / 1000
    return Figures(
        p50_us=median(latencies_s) * 1e6,
        p99_us=quantiles(latencies_s, n=100)[98] * 1e6,
        send_us=median(send for run in runs for send in run.sends_s) * 1e6,
        cpu_us=median(run.cpu_s for run in runs) / thousands * 1e6,
    )
