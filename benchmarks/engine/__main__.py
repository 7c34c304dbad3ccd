"""Measures what the engine adds to native code: `make bench-engine`, or `python -m benchmarks.engine --help`.

steps    In process, streams in steady decode: the share of a step outside of the native call, part by part.
idle     A server as a user starts it: memory beside weights and KV, and processor time while nothing is asked.
timed    What it costs to time the ops of a step, as one in 64 is, and how much of it they explain.
server   The workloads of `make bench` over HTTP, seen from inside: how long steps take while answers are streamed.

The exit status is 1 when an aim is missed, which neighbours on the machine can cause too: measure on a quiet one.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.engine.idle import Idle, measure_idle
from benchmarks.engine.server_steps import SERVED, SteadySteps, measure_server
from benchmarks.engine.steps import CONFIG, PARTS, Attribution, load_clocked, measure_steps
from benchmarks.engine.timed import TimedCost, measure_timing
from benchmarks.serving.machine import describe_machine

VIEWS = ("steps", "idle", "timed", "server")
OUTSIDE_AIMS = {1: 0.08, 32: 0.04}  # share of a step outside of native code, by streams
MAX_OTHER_BYTES = 150_000_000
MAX_TIMING_SHARE = 0.01  # of the time of all steps, one of which in 64 is timed
MAX_IDLE_CPU = 0.005  # some clock ticks of 10 ms in ten seconds, for answering how many
EXAMPLES = """examples:
  python -m benchmarks.engine
  python -m benchmarks.engine steps --streams 1 8 32 --steps 300
  python -m benchmarks.engine server --workloads W1 W4 --json
"""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("views", nargs="*", metavar="VIEW", help=f"of {', '.join(VIEWS)}; all by default")
    parser.add_argument("--streams", type=int, nargs="+", default=list(OUTSIDE_AIMS))
    parser.add_argument("--steps", type=int, default=200, help="of each number of streams")
    names = [workload.name for workload in SERVED]
    parser.add_argument("--workloads", choices=names, nargs="+", default=names)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.views) - set(VIEWS):
        parser.error(f"no view {', '.join(sorted(unknown))}: choose of {', '.join(VIEWS)}")
    if not 1 <= min(arguments.streams) <= max(arguments.streams) <= CONFIG.max_running or arguments.steps < 10:
        parser.error(f"there must be 1 to {CONFIG.max_running} streams and at least 10 steps")
    return arguments


def say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def measure_all_steps(streams: Sequence[int], num_steps: int) -> list[Attribution]:
    model, executable = load_clocked()
    found = []
    for num_streams in streams:
        say(f"{num_streams} streams in steady decode, {num_steps} steps")
        found.append(measure_steps(model, executable, num_streams, num_steps))
    model.executable.close()
    return found


def show_steps(found: Sequence[Attribution], console: Console) -> None:
    table = Table("part of a step", "what it is", title="median µs, and share of the step", title_justify="left")
    for one in found:
        table.add_column(_streams(one), justify="right")
        table.add_column("", justify="right")
    for name, what in PARTS.items():
        table.add_row(name, what, *_cells([(one.parts_s[name], one.period_s) for one in found]))
    table.add_section()
    table.add_row("step", "from the start of one to the next", *_cells([(one.period_s, one.period_s) for one in found]))
    table.add_row("outside", "all but native", *_cells([(one.outside_s, one.period_s) for one in found]))
    console.print(table)
    for one in found:
        if (aim := OUTSIDE_AIMS.get(one.num_streams)) is not None:
            console.print(
                f"{_verdict(one.outside_share <= aim)}: {one.outside_share:.1%} outside of native code with "
                f"{_streams(one)}, at most {aim:.0%} wanted"
            )
    if len(found) > 1:
        first, *_, last = found
        each_us = (last.outside_s - first.outside_s) / (last.num_streams - first.num_streams) * 1e6
        console.print(f"each more running request costs {each_us:.1f} µs of a step")


def _cells(times: Sequence[tuple[float, float]]) -> list[str]:
    return [cell for time, period in times for cell in (f"{time * 1e6:,.1f}", f"{time / period:.1%}")]


def _streams(of: Attribution) -> str:
    return f"{of.num_streams} stream{'' if of.num_streams == 1 else 's'}"


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def show_idle(idle: Idle, console: Console) -> None:
    console.print(
        f"{_verdict(idle.other_bytes <= MAX_OTHER_BYTES)}: idle, {idle.rss_bytes / 1e6:.0f} MB resident, of which "
        f"{idle.weight_bytes / 1e6:.0f} MB packed weights; {idle.other_bytes / 1e6:.0f} MB for the rest, KV blocks "
        f"used so far included, at most {MAX_OTHER_BYTES / 1e6:.0f} MB wanted"
    )
    console.print(f"{_verdict(idle.cpu_share <= MAX_IDLE_CPU)}: idle, {idle.cpu_share:.1%} of a core")


def show_timing(found: Sequence[TimedCost], console: Console) -> None:
    for one in found:
        console.print(
            f"{_verdict(one.share <= MAX_TIMING_SHARE)}: {one.case}, a step of {one.step_s * 1e3:.2f} ms takes "
            f"{one.extra_s * 1e6:+.0f} µs when its ops are timed, {one.share:+.2%} of all steps, at most "
            f"{MAX_TIMING_SHARE:.0%} wanted; ops are {one.ops_share:.1%} of it"
        )


def show_server(found: Sequence[SteadySteps], console: Console) -> None:
    table = Table(title="steps of a serving process in steady decode, ms", title_justify="left")
    headings = ("streams", "steps", "period p50", "p99", "compute p50", "p99", "plan", "commit", "between", "CPUs busy")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in found:
        streams, steps, *figures = asdict(one).values()
        table.add_row(str(streams), str(steps), *(f"{figure:.3f}" for figure in figures))
    console.print(table)


def is_met(steps: Sequence[Attribution], idle: Idle | None, timing: Sequence[TimedCost]) -> bool:
    shares = [one.share <= MAX_TIMING_SHARE for one in timing]
    shares += [one.outside_share <= OUTSIDE_AIMS.get(one.num_streams, 1.0) for one in steps]
    rests = idle is None or (idle.other_bytes <= MAX_OTHER_BYTES and idle.cpu_share <= MAX_IDLE_CPU)
    return all(shares) and rests


def main() -> None:
    arguments = parse_arguments()
    views = arguments.views or VIEWS
    steps = measure_all_steps(arguments.streams, arguments.steps) if "steps" in views else []
    idle = measure_idle() if "idle" in views else None
    timing = measure_timing(arguments.steps, num_threads=len(os.sched_getaffinity(0))) if "timed" in views else []
    served = [workload for workload in SERVED if workload.name in arguments.workloads]
    server = measure_server(served) if "server" in views else []
    if arguments.json:
        print(json.dumps(to_dict(steps, idle, timing, server), indent=1))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
        console.print(describe_machine())
        if steps:
            show_steps(steps, console)
        if idle is not None:
            show_idle(idle, console)
        if timing:
            show_timing(timing, console)
        if server:
            show_server(server, console)
    if not is_met(steps, idle, timing):
        raise SystemExit(1)


def to_dict(
    steps: Sequence[Attribution], idle: Idle | None, timing: Sequence[TimedCost], server: Sequence[SteadySteps]
) -> dict[str, Any]:
    return {
        "machine": describe_machine(),
        "steps": [asdict(one) | {"outside_share": one.outside_share} for one in steps],
        "idle": None if idle is None else asdict(idle),
        "timed": [asdict(one) | {"share": one.share} for one in timing],
        "server": [asdict(one) for one in server],
    }


if __name__ == "__main__":
    main()
