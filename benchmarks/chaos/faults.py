"""Does things to the processes of a server, at random times."""

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.chaos.server import Target

__all__ = ["Faults"]

_PAUSE_S = (0.05, 0.5)  # for which a process is stopped


@dataclass(slots=True)
class Faults:
    """`cuts` are the times at which an API process died, since which connections may be cut."""

    target: Target
    times: random.Random
    gaps_s: tuple[float, float]  # between two faults
    done: Counter[str] = field(default_factory=Counter)
    cuts: list[float] = field(default_factory=list)

    def run(self, is_over: threading.Event) -> None:
        while not is_over.wait(self.times.uniform(*self.gaps_s)):
            self._one()

    def was_cut(self, since_s: float) -> bool:
        """Whether a connection that was made then may have been cut."""
        return any(at_s >= since_s for at_s in list(self.cuts))

    def _one(self) -> None:
        worker = self.times.choice(["api 0", "api 1"])
        match self.times.choice(["kill engine"] * 4 + ["stop engine", "stop worker", "kill worker"]):
            case "kill engine":
                self._note("engine killed", self.target.send("engine", signal.SIGKILL))
            case "stop engine":
                self._stop("engine")
            case "stop worker":
                self._stop(worker)
            case "kill worker":
                self.cuts.append(time.monotonic() + 60.0)  # until it is known when
                was_there = self.target.send(worker, signal.SIGKILL)
                self.cuts[-1] = time.monotonic() + 1.0 if was_there else 0.0
                self._note("worker killed", was_there)

    def _stop(self, title: str) -> None:
        self._note(f"{title.split(maxsplit=1)[0]} stopped", self.target.send(title, signal.SIGSTOP))
        time.sleep(self.times.uniform(*_PAUSE_S))
        self.target.send(title, signal.SIGCONT)

    def _note(self, what: str, was_there: bool) -> None:
        self.done[what] += was_there
