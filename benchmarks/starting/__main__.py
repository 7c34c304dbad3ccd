"""How long it takes from the start of a process to the first token of the default model.

serve: `tailrace serve` until it says that it serves, and until the first streamed token is received by a client that
asks at once. complete: `tailrace complete` until the first text on its standard output. phases: what the time goes
into, part by part, in a process of its own. Each as time on the clock and as CPU time of all its processes: on a busy
machine the second says more. Rounds of all measurements, and of all trees, are interleaved; medians are shown.

--against names the `src` directory of another checkout, built and with its bytecode written, to compare with.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.serving.machine import describe_machine

OURS = Path(__file__).parents[2] / "src"
PHASES = Path(__file__).with_name("phases.py")
PLACE = re.compile(r"Serving at http://127\.0\.0\.1:(\d+)/v1")

Times = Mapping[str, tuple[float, float]]  # name -> seconds on the clock and of CPU; nan: not told apart
EXAMPLES = """examples:
  python -m benchmarks.starting
  python -m benchmarks.starting --rounds 11 --against /path/to/other/src --only complete serve
"""


def serve(tree: Path) -> Times:
    started_s = time.perf_counter()
    words = ["serve", "--port", "0", "--kv-host", "0"]
    process = subprocess.Popen(_tailrace(words), env=_environment(tree), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = next(int(match[1]) for line in process.stderr if (match := PLACE.search(line)))
    ready_s = time.perf_counter() - started_s
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 2, "stream": True, "model": _model(connection)})
    connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
    response = connection.getresponse()
    assert b'"text"' in response.readline()
    first_s = time.perf_counter() - started_s
    response.read()
    connection.close()
    process.send_signal(signal.SIGINT)
    with process.stderr:
        cpu_s = _cpu_s(process)
    return {"serve: ready": (ready_s, nan), "serve: first token": (first_s, cpu_s)}


def complete(tree: Path) -> Times:
    started_s = time.perf_counter()
    words = ["complete", "Once upon a time", "--max-tokens", "1"]
    process = subprocess.Popen(_tailrace(words), env=_environment(tree), stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.read(1)
        first_s = time.perf_counter() - started_s
        process.stdout.read()
    return {"complete: first token": (first_s, _cpu_s(process))}


def phases(tree: Path) -> Times:
    done = subprocess.run(
        [sys.executable, str(PHASES)], env=_environment(tree), stdout=subprocess.PIPE, check=True, text=True
    )
    return {name: (seconds, cpu_s) for name, seconds, cpu_s in json.loads(done.stdout)}


MEASURED: Mapping[str, Callable[[Path], Times]] = {"complete": complete, "serve": serve, "phases": phases}


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.starting",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=MEASURED, nargs="+", default=list(MEASURED))
    parser.add_argument("--against", type=Path, action="append", default=[])
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def measure_all(arguments: argparse.Namespace) -> dict[str, dict[str, tuple[float, float]]]:
    """What -> tree -> medians, after a round that only fills caches."""
    trees = [*arguments.against, OURS]
    rounds: defaultdict[str, defaultdict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for number in range(arguments.rounds + 1):
        for what in arguments.only:
            for tree in trees:
                times = MEASURED[what](tree)
                for name, pair in times.items() if number else ():
                    rounds[name][str(tree)].append(pair)
    return {
        name: {tree: (median(wall for wall, _ in pairs), median(cpu for _, cpu in pairs)) for tree, pairs in of.items()}
        for name, of in rounds.items()
    }


def show(figures: Mapping[str, Mapping[str, tuple[float, float]]], trees: Sequence[str]) -> None:
    table = Table("", title=f"ms, medians; {describe_machine()}", title_justify="left")
    for tree in trees:
        label = "this tree" if tree == str(OURS) else tree
        table.add_column(label, justify="right")
        table.add_column("CPU", justify="right")
    for name, of in figures.items():
        table.add_row(name, *(text for tree in trees for text in _shown(of[tree])))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _shown(pair: tuple[float, float]) -> Iterator[str]:
    yield from ("" if isnan(seconds) else f"{seconds * 1e3:.0f}" for seconds in pair)


def _tailrace(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tailrace.cli", *words]


def _environment(tree: Path) -> dict[str, str]:
    """As a user has it: bytecode is kept."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}


def _model(connection: http.client.HTTPConnection) -> str:
    connection.request("GET", "/v1/models")
    name: str = json.loads(connection.getresponse().read())["data"][0]["id"]
    return name


def _cpu_s(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> float:
    """Of a process and those it waited for, once it has ended."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    arguments = parse_arguments()
    figures = measure_all(arguments)
    if arguments.json:
        json.dump({"machine": describe_machine(), "seconds": figures}, sys.stdout)
        return
    show(figures, [*map(str, arguments.against), str(OURS)])


if __name__ == "__main__":
    main()
