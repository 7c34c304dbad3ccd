"""`tailrace bench simulate`: the scheduler on a pretended device, faster than time passes."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.types import PositiveFloat
from rich.console import Group, RenderableType
from rich.table import Table

from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.simulated import (
    DEFAULT_OPTIONS,
    Policy,
    SimulationOptions,
    by_class,
    latencies,
    percentiles,
    refusals,
)
from tailrace.measure.simulation.arrivals import Burst
from tailrace.measure.simulation.policies.catalog import POLICIES
from tailrace.measure.simulation.report import FORMULAS, SimulationReport
from tailrace.measure.simulation.trial import Load, Trial

__all__ = ["simulate"]

simulate = App(
    name="simulate",
    help_epilogue="Examples:\n"
    "  tailrace bench simulate --load 1.5\n"
    "  tailrace bench simulate --burst 8 --classes gold=10 bronze=90 --json\n"
    "  tailrace bench simulate --policy fcfs --trace AzureLLMInferenceTrace_code.csv\n\n"
    "Policies:\n" + "\n".join(f"  {name:<15} {what}" for name, what in POLICIES.items()) + "\n\n"
    "How each figure comes about:\n" + "\n".join(f"  {name:<13} {formula}" for name, formula in FORMULAS.items()),
)


@simulate.default
def run(
    *,
    policy: Policy = "tailrace",
    load: PositiveFloat = 1.0,
    burst: Annotated[PositiveFloat | None, Parameter(show_default=False)] = None,
    options: SimulationOptions = DEFAULT_OPTIONS,
    json: JsonTarget = None,
) -> None:
    """Run a workload through the scheduler without a model: steps take the time that a recorded cost gives them.

    Parameters
    ----------
    policy
        What makes the plans: see below.
    load
        Arrivals as a share of what the scheduler completes when there is always more to do.
    burst
        Let requests come at random times, and two fifths of them so many times as fast [at the trace's own times].
    json
        Write JSON to a file, or, without a name, to standard output.
    """
    trial = options.trial()
    capacity = trial.capacity()
    wanted = Load(load) if burst is None else Load(load, "burst", Burst(burst))
    report = trial.loaded(wanted, capacity).run(policy)
    figures = {
        "source": options.source,
        "load": asdict(wanted),
        "capacity_requests_per_s": capacity,
        "target_scale": trial.bounds.target_scale,
    }
    rows = [("requests", f"{report.num_requests:,}, {options.source}"), *_conditions(trial, wanted, capacity)]
    show_figures(_render(report, rows), figures | report.to_dict(), json)


def _conditions(trial: Trial, load: Load, capacity: float) -> Iterator[tuple[str, str]]:
    burst = f", for a while {load.burst.factor:g} times as many" if load.kind == "burst" else ", time stretched to that"
    yield "load", f"{load.share:.0%} of {capacity:.2f} requests/s{burst}"
    yield "targets", f"times {trial.bounds.target_scale:.2f} for this machine"


def _render(report: SimulationReport, conditions: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, value in (*conditions, *_rows(report)):
        table.add_row(name, value)
    return Group(table, "", by_class(report), "", latencies(report))


def _rows(report: SimulationReport) -> Iterator[tuple[str, str]]:
    yield "policy", f"{report.policy}: {POLICIES[report.policy]}"
    yield "simulated", f"{report.duration_s:,.1f} s, {report.num_steps:,} steps, busy {report.busy_share:.1%}"
    yield "throughput", f"{report.requests_per_s:.2f} requests/s, {report.output_tokens_per_s:.1f} output tok/s"
    yield "goodput", f"{report.goodput:.2f} requests/s on target"
    yield "TTFT", f"{percentiles(report.ttft_ms, 0)} ms (P50 / P95 / P99)"
    yield "ITL", f"{percentiles(report.itl_ms, 1)} ms"
    yield "token wait", "-" if report.token_wait_ms is None else f"{report.token_wait_ms:,.0f} ms"
    yield "KV held", f"{report.kv_held_share:.1%}; {report.num_preempted:,} preempted"
    yield "padding", f"{report.padding_share:.1%} of rows"
    yield "refused", refusals(report.refused)
    yield "step time", _error(report.step_error)
    yield "TTFT told", _error(report.ttft_error)


def _error(error: float | None) -> str:
    return "nothing was predicted" if error is None else f"median error {error:.1%}"
