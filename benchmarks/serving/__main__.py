"""Measures the server over HTTP, as a user meets it: `make bench`, or `python -m benchmarks.serving --help`.

Each round runs every workload on every server in turn, so that a noisy neighbour meets all of them; the table shows
medians over the rounds, and for a peer also the ratio of ours to it. Client and servers share the machine.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.serving.figures import figures_of
from benchmarks.serving.machine import describe_machine
from benchmarks.serving.measure import measure
from benchmarks.serving.server import measure_start_s, our_command, started_server
from benchmarks.serving.workloads import WORKLOADS
from tailrace.bench.report import Report
from tailrace.version import __version__

OURS = "tailrace"


def show(reports: dict[tuple[str, str], list[Report]], servers: Sequence[str], console: Console) -> None:
    table = Table("workload", "figure", *servers, *(f"ours / {name}" for name in servers if name != OURS))
    for workload in WORKLOADS:
        if (workload.name, OURS) not in reports:
            continue
        for figure in figures_of(workload):
            values = [median(map(figure.of, reports[workload.name, server])) for server in servers]
            cells = [f"{value:,.{figure.digits}f}" for value in values]
            ratios = [f"{values[0] / value:.2f}" for value in values[1:]]
            is_first = figure is figures_of(workload)[0]
            table.add_row(f"{workload.name}: {workload.what}" if is_first else "", figure.name, *cells, *ratios)
        table.add_section()
    console.print(table)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving",
        description=__doc__,
        epilog="example: python -m benchmarks.serving --rounds 3 --peer llama.cpp=http://127.0.0.1:8080",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", default=[workload.name for workload in WORKLOADS])
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=URL", help="a running server to compare with"
    )
    parser.add_argument("--serve", default="", metavar="ARGS", help="arguments for our `tailrace serve`")
    parser.add_argument("--json", type=Path, help="write every run's figures to this file")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    console = Console()
    console.print(
        f"tailrace {__version__} on {describe_machine()}; {arguments.rounds} rounds, medians", highlight=False
    )
    starts_s = [measure_start_s() for _ in range(arguments.rounds)]
    console.print(f"process start to first streamed token: {median(starts_s):.2f} s", highlight=False)
    reports: dict[tuple[str, str], list[Report]] = {}
    with started_server(our_command(*arguments.serve.split())) as ours:
        servers = {OURS: ours} | dict(peer.split("=", 1) for peer in arguments.peer)
        chosen = [workload for workload in WORKLOADS if workload.name in arguments.workloads]
        for number in range(arguments.rounds):
            for workload in chosen:
                for name, url in servers.items():
                    sys.stderr.write(f"round {number + 1}: {workload.name} on {name}\n")
                    reports.setdefault((workload.name, name), []).append(measure(url, workload))
    show(reports, list(servers), console)
    if arguments.json:
        runs = [{"server": key[1], **report.to_dict()} for key, group in reports.items() for report in group]
        figures = {"machine": describe_machine(), "start_s": starts_s, "runs": runs}
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))


if __name__ == "__main__":
    main()
