"""`make soak`: a server with two API processes, under chaos for as long as you like.

python -m benchmarks.chaos --seconds 1800
"""

import argparse
import json
import sys

from benchmarks.chaos.ordeal import Findings, Ordeal
from benchmarks.chaos.running import chaos_server

__all__: list[str] = []


def main() -> None:
    arguments = _arguments()
    ordeal = Ordeal(arguments.seconds, arguments.clients, arguments.seed)
    with chaos_server() as target:
        findings = ordeal.run(target, lambda line: print(f"\r{line}", end="", file=sys.stderr, flush=True))
    print(file=sys.stderr)
    print(json.dumps(_figures(findings), indent=2) if arguments.json else _words(findings))
    sys.exit(bool(findings.wrong))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=8, help="at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _figures(findings: Findings) -> dict[str, object]:
    return {
        "wrong": list(findings.wrong),
        "done": dict(findings.done),
        "faults": dict(findings.faults),
        "peak_bytes": findings.peak_bytes,
    }


def _words(findings: Findings) -> str:
    done = ", ".join(f"{count:,} {name}" for name, count in findings.done.most_common())
    faults = ", ".join(f"{count} {name}" for name, count in findings.faults.most_common())
    peaks = ", ".join(f"{name} {count >> 20} MiB" for name, count in findings.peak_bytes.items())
    wrong = "\n".join(findings.wrong) or "nothing was wrong"
    return f"done: {done}\nfaults: {faults}\npeaks: {peaks}\n{wrong}"


if __name__ == "__main__":
    main()
