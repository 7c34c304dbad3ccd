"""How far the simulator is from the engine: one workload through both.

    python -m benchmarks.scheduling.simulated_vs_real [--load 0.8] [--requests 200] [--record FILE] [--json]

The engine runs conversations of Azure's trace, lengths divided by 16, in this process. A step-time model is fitted to
the steps it made, from the start of a step to its end; then the same arrivals go through the same scheduler on a
pretended device with that cost. The fit has seen these very steps: what is tested is what the simulator makes of a
cost that is right, not how well costs are foreseen. With `--record` the model is kept for `tailrace bench simulate
--cost FILE`.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scheduling.in_process import InProcess, Settled, say_progress
from benchmarks.scheduling.overload import CONFIG, azure_arrivals, measure_capacity, warmed_up
from benchmarks.serving.machine import describe_machine
from tailrace.bench.statistics import percentile
from tailrace.loading import load_model
from tailrace.measure.simulation.arrivals import Arrival, at_rate
from tailrace.measure.simulation.policies.catalog import Bounds
from tailrace.measure.simulation.report import SimulationReport, make_report
from tailrace.measure.simulation.trial import Trial
from tailrace.records import StepRecord
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.weights.load import open_checkpoint

__all__ = ["Comparison", "compare", "fitted", "spread_of"]

_MAX_NOISE = 0.5


@dataclass(frozen=True, slots=True)
class Comparison:
    cost: StepTimeModel
    noise: float
    num_steps: int
    fit_error: float | None  # median, relative
    real: SimulationReport
    simulated: SimulationReport

    def rows(self) -> Iterator[tuple[str, float, float]]:
        """Figure, real, simulated."""
        real, simulated = self.real, self.simulated
        yield "requests/s", real.requests_per_s, simulated.requests_per_s
        yield "output tok/s", real.output_tokens_per_s, simulated.output_tokens_per_s
        for name in ("p50", "p95"):
            yield f"TTFT {name.upper()} ms", getattr(real.ttft_ms, name), getattr(simulated.ttft_ms, name)
        for name in ("p50", "p95"):
            yield f"ITL {name.upper()} ms", getattr(real.itl_ms, name), getattr(simulated.itl_ms, name)

    def to_dict(self) -> dict[str, Any]:
        figures = {
            name: {"real": real, "simulated": simulated, "error": simulated / real - 1.0}
            for name, real, simulated in self.rows()
        }
        return {"num_steps": self.num_steps, "fit_error": self.fit_error, "noise": self.noise, "figures": figures}


def compare(settled: Settled, arrivals: Sequence[Arrival]) -> Comparison:
    engine = InProcess(settled)
    outcome = engine.run(arrivals, say_progress("real"))
    cost = fitted(engine.steps)
    noise = spread_of(cost, engine.steps)
    config, limits = settled.config, settled.model.limits
    bounds = Bounds(
        max_running=limits.max_sequences,
        budget_tokens=limits.max_tokens,
        chunk_tokens=config.chunk_tokens,
        max_model_tokens=limits.max_model_tokens,
        block_tokens=limits.block_tokens,
        kv_tokens=limits.num_blocks * limits.block_tokens,
        classes=config.classes,
        target_scale=settled.target_scale,
    )
    simulated = Trial(arrivals, cost, bounds, config.max_queued, noise).run("tailrace")
    real = make_report("tailrace", outcome, bounds.classes)
    return Comparison(cost, noise, len(engine.steps), cost.median_error, real, simulated)


def fitted(steps: Sequence[StepRecord]) -> StepTimeModel:
    """From the start of each step to its end."""
    model = StepTimeModel()
    for step in steps:
        model.observe(_size(step), step.finished_s - step.started_s)
    return model


def spread_of(model: StepTimeModel, steps: Sequence[StepRecord]) -> float:
    """How the times of steps lie around what the model says: half the distance of the logarithms' P16 and P84."""
    logs = sorted(
        math.log((step.finished_s - step.started_s) / predicted_s)
        for step in steps
        if (predicted_s := model.predict(_size(step)))
    )
    return min((percentile(logs, 84) - percentile(logs, 16)) / 2, _MAX_NOISE) if logs else 0.0


def _size(step: StepRecord) -> StepSize:
    return StepSize(step.num_tokens, step.num_sampled, step.num_read_tokens, step.num_alone_read_tokens)


def record(comparison: Comparison, name: str, file: Path) -> None:
    figures = {"model": name, "machine": describe_machine(), "step_time": comparison.cost.to_dict()}
    file.write_text(json.dumps(figures, indent=1) + "\n")


def show(comparison: Comparison) -> None:
    print(describe_machine())
    error = "-" if comparison.fit_error is None else f"{comparison.fit_error:.1%}"
    print(f"{comparison.num_steps:,} steps, median error of the fit {error}, noise {comparison.noise:.2f}")
    print(f"{'':14} {'real':>10} {'simulated':>10} {'error':>8}")
    for name, real, simulated in comparison.rows():
        print(f"{name:14} {real:10.2f} {simulated:10.2f} {simulated / real - 1.0:+8.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.simulated_vs_real",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="another than the default model")
    parser.add_argument("--load", type=float, default=0.8, help="arrivals as a share of capacity [%(default)s]")
    parser.add_argument("--requests", type=int, default=200, help="[%(default)s]")
    parser.add_argument("--saturating", type=int, default=100, help="requests that measure capacity [%(default)s]")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the fitted model")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    checkpoint = open_checkpoint(arguments.model or "default")
    settled = warmed_up(load_model(checkpoint, CONFIG), CONFIG)
    capacity = measure_capacity(settled, arguments.saturating)
    comparison = compare(settled, at_rate(azure_arrivals(arguments.requests), arguments.load * capacity))
    if arguments.record is not None:
        record(comparison, checkpoint.name, arguments.record)
    if arguments.json:
        sys.stdout.write(json.dumps({"machine": describe_machine()} | comparison.to_dict(), indent=2) + "\n")
    else:
        show(comparison)


if __name__ == "__main__":
    main()
