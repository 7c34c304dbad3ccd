"""Shows how costs grow: `make bench-scaling`, or `python -m benchmarks.scaling --help`.

Four claims, each with figures and a verdict: a token costs the same however many requests wait; planning costs each
running request the same; a step grows with its context along a straight line; a model of 1.5B parameters comes as near
to the machine's ceilings as one of 135M. The exit status is 1 when one does not hold, which neighbours on the machine
can cause too: measure on a quiet one.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial

from rich.console import Console

from benchmarks.scaling.computing import context_finding, model_finding
from benchmarks.scaling.finding import Finding, show
from benchmarks.scaling.requests import running_finding, waiting_finding
from benchmarks.serving.machine import describe_machine

EXAMPLES = """examples:
  python -m benchmarks.scaling
  python -m benchmarks.scaling waiting running --json
"""


def findings(num_threads: int) -> dict[str, Callable[[], Finding]]:
    return {
        "waiting": waiting_finding,
        "running": running_finding,
        "context": partial(context_finding, num_threads),
        "model": partial(model_finding, num_threads),
    }


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    claims = list(findings(1))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=f"of {', '.join(claims)}; all by default")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(words)
    unknown = set(arguments.claims) - set(claims)
    if unknown:
        parser.error(f"no claim {', '.join(sorted(unknown))}: choose of {', '.join(claims)}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    chosen = {name: find for name, find in findings(arguments.threads).items() if name in (arguments.claims or [name])}
    found: dict[str, Finding] = {}
    for number, (name, find) in enumerate(chosen.items(), start=1):
        sys.stderr.write(f"{number} of {len(chosen)}: {name}\n")
        found[name] = find()
    if arguments.json:
        claims = {name: asdict(finding) for name, finding in found.items()}
        json.dump({"machine": describe_machine(), "claims": claims}, sys.stdout, indent=1)
        print()
    else:
        console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
        console.print(describe_machine())
        for finding in found.values():
            show(finding, console)
    if not all(finding.holds for finding in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
