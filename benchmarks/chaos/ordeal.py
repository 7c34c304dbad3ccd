"""A server under chaos for a while, and what was found wrong with it."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from benchmarks.chaos.clients import Clients
from benchmarks.chaos.faults import Faults
from benchmarks.chaos.requests import REQUESTS, Asked, ask
from benchmarks.chaos.server import Held, Target

__all__ = ["Findings", "Ordeal"]

_LOOK_S = 1.0
_SETTLE_S = 60.0
_MORE_FILES = 4  # that a process may have beyond those at the start: connections that are being closed
_GROWTH, _GROWTH_BYTES = 1.1, 32 << 20  # of a process's memory from the third to the fourth quarter


@dataclass(frozen=True, slots=True)
class Findings:
    """`wrong` is what should not have been, each in words."""

    wrong: Sequence[str]
    done: Counter[str]
    faults: Counter[str]
    peak_bytes: dict[str, int] = field(default_factory=dict)  # by process


@dataclass(frozen=True, slots=True)
class Ordeal:
    seconds: float
    num_clients: int = 8
    seed: int = 1
    gaps_s: tuple[float, float] = (0.7, 3.0)  # between faults

    def run(self, target: Target, say: Callable[[str], None] = lambda line: None) -> Findings:
        """Ask for every answer undisturbed; then again and again, while processes die and others misbehave."""
        right = {name: ask(target.port, Asked(name, is_streamed=False)) for name in REQUESTS}
        before = target.held()
        faults = Faults(target, random.Random(self.seed), self.gaps_s)
        clients = Clients(target.port, right, faults)
        is_over = threading.Event()
        samples: list[list[Held]] = []
        with ThreadPoolExecutor(self.num_clients + 1) as threads:
            running = [
                threads.submit(clients.run, self.seed * 1000 + number, is_over) for number in range(self.num_clients)
            ]
            running.append(threads.submit(faults.run, is_over))
            ends_s = time.monotonic() + self.seconds
            while time.monotonic() < ends_s and not any(each.done() for each in running):
                time.sleep(_LOOK_S)
                samples.append(target.held())
                say(f"{clients.done.total():,} done, {faults.done.total()} faults, {len(clients.wrong)} wrong")
            is_over.set()
            for each in running:
                each.result()
        wrong = [*clients.wrong, *_unsettled(target, before), *_growing(samples)]
        return Findings(wrong, clients.done, faults.done, _peaks(samples))


def _unsettled(target: Target, before: Sequence[Held]) -> list[str]:
    """What is left when all clients have gone."""
    if not target.wait_until_idle(_SETTLE_S):
        names = ("tailrace_requests_running", "tailrace_requests_waiting", "tailrace_kv_blocks_used")
        return [f"{name} is still {value:.0f}" for name in names if (value := target.metric(name))]
    files = {each.title: each.num_files for each in before}
    return [
        f"{each.title} has {each.num_files} open files, and had {files.get(each.title)}"
        for each in target.held()
        if each.num_files > files.get(each.title, 0) + _MORE_FILES
    ]


def _growing(samples: Sequence[Sequence[Held]]) -> list[str]:
    """Processes whose memory is not flat in the last half. One that was started again begins anew, which is less."""
    half = len(samples) // 2
    third, fourth = (_medians(part) for part in (samples[half : half + half // 2], samples[half + half // 2 :]))
    return [
        f"the memory of {title} grew from {third[title] >> 20} to {after >> 20} MiB"
        for title, after in fourth.items()
        if title in third and after > max(third[title] * _GROWTH, third[title] + _GROWTH_BYTES)
    ]


def _medians(samples: Sequence[Sequence[Held]]) -> dict[str, int]:
    titles = {each.title for sample in samples for each in sample}
    return {title: int(median(_resident(samples, title))) for title in titles}


def _peaks(samples: Sequence[Sequence[Held]]) -> dict[str, int]:
    titles = {each.title for sample in samples for each in sample}
    return {title: max(_resident(samples, title)) for title in sorted(titles)}


def _resident(samples: Sequence[Sequence[Held]], title: str) -> list[int]:
    return [each.resident_bytes for sample in samples for each in sample if each.title == title]
