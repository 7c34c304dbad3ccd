"""What a run found, as tables and as JSON, with its changes against the baseline."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.kernels.baseline import Baseline, Change, Setting
from benchmarks.kernels.counting import Counts, why_not
from benchmarks.kernels.subjects import SUBJECT_NOTES
from benchmarks.kernels.timing import Line
from tailrace.ops.api import Ceilings

__all__ = ["Run", "show", "to_dict"]


@dataclass(frozen=True, slots=True)
class Run:
    """`ceilings` is None and `lines` empty when only instructions were counted; `counts` when only times were taken."""

    machine: str
    setting: Setting
    ceilings: Ceilings | None
    lines: Sequence[Line]
    counts: dict[str, Counts]
    baseline: Baseline | None

    def change_of_time(self, line: Line) -> Change | None:
        is_comparable = self.baseline is not None and self.baseline.why_no_times(self.setting) is None
        return self.baseline.change_of_time(line) if self.baseline is not None and is_comparable else None

    def changes_of_counts(self) -> Iterator[tuple[str, str, int, Change | None]]:
        """Counter, step, instructions, and their change if it is to be judged."""
        for counter, counts in self.counts.items():
            baseline = self.baseline
            is_comparable = baseline is not None and baseline.why_no_counts(counter, counts.compiler) is None
            for name, count in counts.instructions.items():
                change = baseline.change_of_count(counter, name, count) if baseline and is_comparable else None
                yield counter, name, count, change

    @property
    def grown_counts(self) -> list[str]:
        return [
            f"{counter}: {name}"
            for counter, name, _, change in self.changes_of_counts()
            if change is not None and change.is_worse
        ]


def show(run: Run) -> None:
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    setting = run.setting
    console.print(f"{run.machine}; {setting.isa}, {setting.kv_format} KV, {setting.num_threads} threads")
    if run.baseline is None:
        console.print("there is no baseline to compare with yet: --update-baseline writes one")
    if run.ceilings is not None:
        _show_times(run, run.ceilings, console)
    if run.counts:
        _show_counts(run, console)
    for line in run.grown_counts:
        console.print(f"more instructions than in the baseline: {line}", style="bold red")


def _show_times(run: Run, ceilings: Ceilings, console: Console) -> None:
    reads, dots = ceilings.read_bytes_per_s / 1e9, ceilings.dot_ops_per_s / 1e12
    console.print(f"ceilings of this run: {reads:.1f} GB/s from 96 MiB, {dots:.2f} int8 TOPS")
    if (before := run.baseline) is not None:
        console.print(
            f"ceilings of the baseline ({before.date}): {before.read_gbytes_per_s} GB/s, {before.dot_tops} TOPS"
        )
        console.print(
            before.why_no_times(run.setting) or "times are compared with the baseline; ratios below 1 are better"
        )
    for model, lines in groupby(run.lines, key=lambda line: line.model):
        console.print(_table_of(run, f"{model}: {SUBJECT_NOTES[model]}", list(lines)))
    changes = [change for line in run.lines if (change := run.change_of_time(line)) is not None and change.is_notable]
    if run.baseline is not None and run.baseline.why_no_times(run.setting) is None:
        num_worse = sum(change.is_worse for change in changes)
        console.print(f"beyond the noise of both runs: {num_worse} worse, {len(changes) - num_worse} better")


def _table_of(run: Run, title: str, lines: Sequence[Line]) -> Table:
    table = Table("step", "op", title=title, title_justify="left")
    for heading in ("ms", "±", "GB/s", "TOPS", "of ceiling", "bound by", "baseline"):
        table.add_column(heading, justify="right")
    for case, of_case in groupby(lines, key=lambda line: line.case):
        table.add_section()
        for number, line in enumerate(of_case):
            change = run.change_of_time(line)
            table.add_row("" if number else case, line.op, *_cells(line), "" if change is None else change.text)
    return table


def _cells(line: Line) -> tuple[str, ...]:
    measured = f"{line.time_ms:.4f}", f"{line.spread:.0%}"
    if not line.tops:
        return *measured, "", "", "", ""
    bound = "memory" if line.is_memory_bound else "dots"
    return *measured, f"{line.gbytes_per_s:.1f}", f"{line.tops:.3f}", f"{line.ceiling_share:.0%}", bound


def _show_counts(run: Run, console: Console) -> None:
    table = Table("counted by", "step", title="instructions, one thread", title_justify="left")
    table.add_column("instructions", justify="right")
    table.add_column("baseline", justify="right")
    for counter, name, count, change in run.changes_of_counts():
        table.add_row(counter, name, f"{count:,}", "" if change is None else change.text)
    console.print(table)
    for reason in _notes(run):
        console.print(reason)


def _notes(run: Run) -> Iterator[str]:
    yield from why_not()
    if run.baseline is not None:
        for counter, counts in run.counts.items():
            reason = run.baseline.why_no_counts(counter, counts.compiler)
            if reason is not None:
                yield f"not judged: {reason}"


def to_dict(run: Run) -> dict[str, Any]:
    return {
        "machine": run.machine,
        "setting": asdict(run.setting),
        "ceilings": None if run.ceilings is None else asdict(run.ceilings),
        "times": [asdict(line) | {"ratio": _ratio(run.change_of_time(line))} for line in run.lines],
        "counts": [
            {"counter": counter, "step": name, "instructions": count, "ratio": _ratio(change)}
            for counter, name, count, change in run.changes_of_counts()
        ],
        "grown_counts": run.grown_counts,
    }


def _ratio(change: Change | None) -> float | None:
    return None if change is None else change.ratio
