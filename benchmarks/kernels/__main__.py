"""Measures the CPU back end op by op: `make bench-kernels`, or `python -m benchmarks.kernels --help`.

Each line is one kind of op in one step: its time, the bytes of weights and KV it reads a second, its multiplies and
adds a second (of int8; one of attention's bf16 counts as the two whose place it takes), and its share of the nearer
ceiling: what the same threads reach in the same run when they only read, or only multiply. Times are of the quickest
step in the quickest of several rounds, since neighbours on the machine can only add to them; "±" is how far other
rounds lie from it. Instructions of the hot kernels are counted too, where valgrind or the processor's counter is there:
they repeat exactly, and one that grew by more than 2% since the baseline makes the exit status 1.
"""

import argparse
import datetime
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from benchmarks.kernels.baseline import BASELINE_FILE, Baseline, Setting, timings
from benchmarks.kernels.counting import count_instructions
from benchmarks.kernels.report import Run, show, to_dict
from benchmarks.kernels.steps import cases
from benchmarks.kernels.subjects import SUBJECTS
from benchmarks.kernels.timing import Line, highest_ceilings, measure
from benchmarks.serving.machine import describe_machine, describe_processor
from tailrace.ops.api import Ceilings
from tailrace.ops.cpu.backend import CpuBackend, KvFormat, supported_isas

ROWS = (1, 4, 16, 32, 512)
EXAMPLES = """examples:
  python -m benchmarks.kernels
  python -m benchmarks.kernels --only times --model SmolLM2-135M --rows 1 32
  python -m benchmarks.kernels --only counts
  python -m benchmarks.kernels --update-baseline      (on a quiet machine)
"""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=("times", "counts"), help="half of it")
    parser.add_argument("--model", choices=SUBJECTS, nargs="+", default=list(SUBJECTS), help="all by default")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="of a step; above 64: one prompt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--isa", choices=supported_isas(), help="the best by default, or TAILRACE_CPU_ISA")
    parser.add_argument("--kv", choices=get_args(KvFormat), default=get_args(KvFormat)[0], help="[%(default)s]")
    parser.add_argument(
        "--update-baseline",
        action="store_true",
        help=f"write what was found to {BASELINE_FILE.name}; with --only, the other half stays",
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(words)
    if min(arguments.rows) < 1 or arguments.threads < 1 or arguments.rounds < 1:
        parser.error("--rows, --threads and --rounds must be at least 1")
    is_narrowed = set(arguments.model) != set(SUBJECTS) or set(arguments.rows) != set(ROWS)
    if arguments.update_baseline and is_narrowed:
        parser.error("a baseline holds all models and rows: leave out --model and --rows")
    if arguments.update_baseline and arguments.only == "counts" and Baseline.read() is None:
        parser.error("there is no baseline yet whose counts could be renewed: leave out --only")
    return arguments


def say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def take_times(backend: CpuBackend, arguments: argparse.Namespace) -> tuple[Ceilings, list[Line]]:
    """All lines, against the highest ceilings of the whole run."""
    ceilings = highest_ceilings(arguments.threads, backend.isa)
    profiles = []
    for model in arguments.model:
        for number, subject in enumerate(SUBJECTS[model](), start=1):
            say(f"measuring {model}" + ("" if subject.is_whole else f", part {number}"))
            of = list(cases(arguments.rows))
            measured = measure(backend, subject, of, arguments.threads, arguments.rounds)
            profiles += [(model, profile) for profile in measured]
            ceilings = highest_ceilings(arguments.threads, backend.isa, ceilings)
    lines = [line for model, profile in profiles for line in profile.lines(model, ceilings)]
    return ceilings, sorted(lines, key=lambda line: (arguments.model.index(line.model), _row_order(line.case)))


def _row_order(case: str) -> int:
    return int(case.rsplit(" ", 1)[1])


def renewed(run: Run) -> Baseline:
    """The baseline with what this run has found; the half that it did not look at stays."""
    before = run.baseline
    if run.ceilings is None:
        assert before is not None
        return replace(before, counts=before.counts | run.counts)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    reads, dots = run.ceilings.read_bytes_per_s / 1e9, run.ceilings.dot_ops_per_s / 1e12
    counts = ({} if before is None else before.counts) | run.counts
    return Baseline(run.setting, date, round(reads, 1), round(dots, 2), timings(run.lines), counts)


def main() -> None:
    arguments = parse_arguments()
    backend = CpuBackend(arguments.isa, arguments.kv)
    setting = Setting(describe_processor(), backend.isa, backend.kv_format, arguments.threads)
    counts = {} if arguments.only == "times" else count_instructions(say)
    ceilings, lines = (None, []) if arguments.only == "counts" else take_times(backend, arguments)
    run = Run(describe_machine(), setting, ceilings, lines, counts, Baseline.read())
    if arguments.json:
        json.dump(to_dict(run), sys.stdout, indent=1)
        print()
    else:
        show(run)
    if arguments.update_baseline:
        renewed(run).write()
        say(f"wrote {BASELINE_FILE}")
    elif run.grown_counts:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
