"""What a scrape costs, in processor time of who answers it and of the others: `python -m benchmarks.telemetry --help`.

Nothing but a scrape's own work is measured: a process that is asked makes a snapshot; who answers adds those of the
others to its own, and writes. An API process does that between two events of its loop, so that streams wait for it.
"""

import argparse
import json
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from benchmarks.serving.machine import describe_machine
from benchmarks.telemetry.scraping import Cost, Server, measure

EXAMPLES = """examples:
  python -m benchmarks.telemetry
  python -m benchmarks.telemetry --classes 8 --routes 60 --json
"""
PROCESSES = (1, 3, 9)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--classes", type=int, default=3, help="service classes, 1 to 8 (default: 3)")
    parser.add_argument("--routes", type=int, default=20, help="HTTP routes that were asked (default: 20)")
    parser.add_argument("--rounds", type=int, default=50, help="scrapes of each kind (default: 50)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    costs = [
        measure(Server(num_processes, asked.classes, asked.routes), accept, asked.rounds)
        for num_processes in PROCESSES
        for accept in ("text/plain", "application/openmetrics-text")
    ]
    if asked.json:
        json.dump({"machine": describe_machine(), "costs": list(map(asdict, costs))}, sys.stdout, indent=2)
        return
    console = Console()
    console.print(f"{describe_machine()}; {asked.classes} classes, {asked.routes} routes, {asked.rounds} rounds")
    console.print(_table(costs))


def _table(costs: list[Cost]) -> Table:
    table = Table("processes", "format", "lines", "KiB", "snapshot ms", "scrape ms", "worst ms")
    for cost in costs:
        table.add_row(
            str(cost.num_processes),
            cost.format,
            str(cost.num_lines),
            f"{cost.num_bytes / 1024:.0f}",
            f"{cost.snapshot_s * 1e3:.2f}",
            f"{cost.scrape_s * 1e3:.2f}",
            f"{cost.worst_s * 1e3:.2f}",
        )
    return table


if __name__ == "__main__":
    main()
