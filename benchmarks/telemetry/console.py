"""What an open console costs a server at rest: processor time of all processes with and without it, in turn.

    python -m benchmarks.telemetry.console --help

The feed is read as the page reads it, and drawn by nobody: what the browser takes is not in it. A server that computes
takes all it can get, console or not: of such a one the difference would say nothing.
"""

import argparse
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.engine.idle import process_metrics
from benchmarks.serving.machine import describe_machine
from benchmarks.serving.server import our_command, started_server

__all__ = ["ConsoleCost", "measure_console"]

EXAMPLES = """examples:
  python -m benchmarks.telemetry.console
  python -m benchmarks.telemetry.console --rounds 5 --json
"""


@dataclass(frozen=True, slots=True)
class ConsoleCost:
    """In cores: medians over the rounds."""

    closed: float
    open: float

    @property
    def cores(self) -> float:
        return self.open - self.closed


def measure_console(url: str, *, num_rounds: int, watch_s: float) -> ConsoleCost:
    """Of a server that is asked nothing else meanwhile."""
    closed, opened = [], []
    for _ in range(num_rounds):
        closed.append(_cores(url, watch_s))
        with reading(url):
            opened.append(_cores(url, watch_s))
    return ConsoleCost(median(closed), median(opened))


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Somebody looks: what comes is read as it comes."""
    with closing(urllib.request.urlopen(f"{url}/console/feed")) as feed:
        is_over = threading.Event()

        def read() -> None:
            while feed.readline() and not is_over.is_set():
                pass

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            is_over.set()
            reader.join()


def _cores(url: str, watch_s: float) -> float:
    before_s, started_s = _cpu_s(url), time.monotonic()
    time.sleep(watch_s)
    return (_cpu_s(url) - before_s) / (time.monotonic() - started_s)


def _cpu_s(url: str) -> float:
    """Of all processes of the server."""
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        return process_metrics(reply.read().decode())["process_cpu_seconds_total"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="with and without it in turn (default: 3)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each (default: 15)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    with started_server(our_command()) as url:
        cost = measure_console(url, num_rounds=asked.rounds, watch_s=asked.seconds)
    if asked.json:
        print(json.dumps({"machine": describe_machine(), **asdict(cost), "cores": cost.cores}, indent=2))
    else:
        print(describe_machine())
        print(f"closed {cost.closed:.2%}, open {cost.open:.2%} of a core: the console takes {cost.cores:.2%}")


if __name__ == "__main__":
    main()
