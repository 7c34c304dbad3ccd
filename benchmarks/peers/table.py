"""The comparison as a person reads it, and as a file keeps it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from benchmarks.peers.engine import Description
from benchmarks.peers.rounds import Outcome
from benchmarks.peers.standings import Standing
from benchmarks.serving.workloads import LARGE_WORKLOADS, WORKLOADS

__all__ = ["Comparison", "render", "to_dict"]

_NOISY_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """`engines`: those that could be built, ours first. `skipped`: the others, each with the reason."""

    machine: str
    date: str
    num_rounds: int
    seed: int
    engines: Mapping[str, Description]
    skipped: Mapping[str, str]
    outcome: Outcome
    standings: Sequence[Standing]

    @property
    def left_out(self) -> dict[str, str]:
        """Who has no figures, or not all, and why."""
        return {**self.skipped, **self.outcome.dropped}


def render(comparison: Comparison) -> RenderableType:
    """The table, then all that it takes to believe it or not."""
    head = f"{comparison.machine}; {comparison.date}; rounds: {comparison.num_rounds}, medians"
    return Group(head, _table(comparison), *_notes(comparison))


def _table(comparison: Comparison) -> Table:
    engines = list(comparison.engines)
    table = Table("workload", "figure", *engines, "best peer", "ours / best", "in rounds", "aim", "met")
    for column in table.columns[2 : 2 + len(engines)]:
        column.justify = "right"
    what = {workload.name: workload.what for workload in (*WORKLOADS, *LARGE_WORKLOADS)}
    previous = ""
    for standing in comparison.standings:
        name = standing.aim.workload
        if previous and name != previous:
            table.add_section()
        first = f"{name}: {what.get(name, '')}" if name != previous else ""
        table.add_row(first, standing.aim.figure.name, *_cells(standing, engines))
        previous = name
    return table


def _cells(standing: Standing, engines: Sequence[str]) -> Iterator[str]:
    digits = standing.aim.figure.digits
    for engine in engines:
        value = standing.medians.get(engine)
        yield "-" if value is None else f"{value:,.{digits}f}"
    yield standing.best_peer or "-"
    yield "-" if standing.ratio is None else f"{standing.ratio:.2f}"
    yield f"{min(standing.in_rounds):.2f}..{max(standing.in_rounds):.2f}" if standing.in_rounds else "-"
    yield str(standing.aim)
    yield {None: "-", True: "yes", False: "no"}[standing.is_met]


def _notes(comparison: Comparison) -> Iterator[str]:
    for name, engine in comparison.engines.items():
        yield f"{name}: {engine.version}; weights: {engine.weights}; {engine.flags or 'no flags'}"
    for name, reason in comparison.left_out.items():
        yield f"left out: {name}: {reason}"
    met = [standing.is_met for standing in comparison.standings]
    yield f"aims met: {met.count(True)} of {len(met) - met.count(None)}"
    if comparison.outcome.is_interrupted:
        yield "interrupted: this is what was measured until then"
    noisy = [measurement for measurement in comparison.outcome.measurements if measurement.other_cpu > _NOISY_SHARE]
    if noisy:
        worst = max(measurement.other_cpu for measurement in noisy)
        total = len(comparison.outcome.measurements)
        yield f"not quiet: in {len(noisy)} of {total} runs other processes had up to {worst:.0%} of the machine"


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """Everything, with every run's figures."""
    runs = [
        {
            "engine": measurement.engine,
            "round": measurement.round_index + 1,
            "other_cpu": measurement.other_cpu,
            **_without_folders(measurement.report.to_dict()),
        }
        for measurement in comparison.outcome.measurements
    ]
    return {
        "machine": comparison.machine,
        "date": comparison.date,
        "rounds": comparison.num_rounds,
        "seed": comparison.seed,
        "engines": {name: asdict(engine) for name, engine in comparison.engines.items()},
        "left_out": comparison.left_out,
        "standings": [_standing_dict(standing) for standing in comparison.standings],
        "runs": runs,
    }


def _without_folders(figures: dict[str, Any]) -> dict[str, Any]:
    """Some servers call a model by the path it was loaded from, which says nothing outside of that machine."""
    return figures | {key: PurePath(figures[key]).name for key in ("model_id", "tokenizer_id")}


def _standing_dict(standing: Standing) -> dict[str, Any]:
    return {
        "workload": standing.aim.workload,
        "figure": standing.aim.figure.name,
        "medians": dict(standing.medians),
        "best_peer": standing.best_peer,
        "ratio": standing.ratio,
        "ratio_in_rounds": list(standing.in_rounds),
        "aim": standing.aim.ratio,
        "is_met": standing.is_met,
    }
