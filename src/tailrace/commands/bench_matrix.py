"""`tailrace bench matrix`: the scheduler beside older policies, on the same arrivals, on a pretended device."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.types import PositiveFloat, PositiveInt
from cyclopts.validators import Number
from rich.console import Group, RenderableType

from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.loading import LoadingBar
from tailrace.commands.simulated import DEFAULT_OPTIONS, Policy, SimulationOptions, compared
from tailrace.measure.simulation.arrivals import Burst
from tailrace.measure.simulation.policies.catalog import POLICIES, Batching
from tailrace.measure.simulation.report import FORMULAS, SimulationReport
from tailrace.measure.simulation.trial import Load, Trial

__all__ = ["matrix"]

OLD_AND_NEW: tuple[Policy, ...] = ("static", "adaptive-batch", "dynamic-length", "adaptive-both", "tailrace")

matrix = App(
    name="matrix",
    help_epilogue="Examples:\n"
    "  tailrace bench matrix\n"
    "  tailrace bench matrix --load 1.2 --policy round-robin fcfs tailrace --json\n\n"
    "Policies:\n" + "\n".join(f"  {name:<15} {what}" for name, what in POLICIES.items()) + "\n\n"
    "How each figure comes about:\n" + "\n".join(f"  {name:<13} {formula}" for name, formula in FORMULAS.items()),
)


@matrix.default
def run(
    *,
    policy: Annotated[list[Policy] | None, Parameter(consume_multiple=True)] = None,
    load: PositiveFloat = 0.7,
    burst: PositiveFloat = 4.0,
    batch: PositiveInt = 32,
    patience: Annotated[float, Parameter(validator=Number(gt=0, lte=10))] = 0.05,
    pad_to: Annotated[int, Parameter(validator=Number(gt=0, lte=8_192))] = 512,
    options: SimulationOptions = DEFAULT_OPTIONS,
    json: JsonTarget = None,
) -> None:
    """Compare policies on the same arrivals, those of a trace and those of a burst, without a model.

    Parameters
    ----------
    policy
        Which to compare: see below [the four with batches, and tailrace].
    load
        Arrivals as a share of what the scheduler completes when there is always more to do; of the burst, while it is
        quiet.
    burst
        Two fifths of the requests of the burst come so many times as fast.
    batch
        Requests of a batch of fixed size.
    patience
        Seconds after which such a batch begins though it is not full.
    pad_to
        Tokens to which prompts are padded where the length is fixed; one that is longer, to a multiple.
    json
        Write JSON to a file, or, without a name, to standard output.
    """
    policies = policy or list(OLD_AND_NEW)
    trial = options.trial(Batching(batch, patience, pad_to))
    capacity = trial.capacity()
    loads = (Load(load), Load(load, "burst", Burst(burst)))
    results = _compare(trial, capacity, loads, policies)
    figures = {
        "source": options.source,
        "capacity_requests_per_s": capacity,
        "target_scale": trial.bounds.target_scale,
        "matrices": [_figures(each, reports) for each, reports in zip(loads, results, strict=True)],
    }
    show_figures(_render(options.source, capacity, loads, results), figures, json)


def _compare(
    trial: Trial, capacity: float, loads: Sequence[Load], policies: Sequence[Policy]
) -> list[list[SimulationReport]]:
    """Of each load, a report for each policy."""
    bar, done, results = LoadingBar("Simulating"), 0, []
    for load in loads:
        loaded, reports = trial.loaded(load, capacity), []
        for policy in policies:
            reports.append(loaded.run(policy))
            done += 1
            bar(done, len(loads) * len(policies))
        results.append(reports)
    return results


def _figures(load: Load, reports: Sequence[SimulationReport]) -> dict[str, Any]:
    return {"load": asdict(load), "policies": [report.to_dict() for report in reports]}


def _render(
    source: str, capacity: float, loads: Sequence[Load], results: Sequence[Sequence[SimulationReport]]
) -> RenderableType:
    parts: list[RenderableType] = [f"{results[0][0].num_requests:,} requests: {source}"]
    for load, reports in zip(loads, results, strict=True):
        parts += ["", _title(load, capacity), compared(reports)]
    return Group(*parts)


def _title(load: Load, capacity: float) -> str:
    rate = f"{load.share:.0%} of {capacity:.2f} requests/s"
    if load.kind == "burst":
        return f"Burst: {rate} at random times, for a while {load.burst.factor:g} times as many"
    return f"Trace: {rate}, time stretched to that"
