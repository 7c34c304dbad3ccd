"""How well the time of a step is predicted: the step-time model on real steps, each predicted, run and observed.

    python -m benchmarks.scheduling.steptime [--seconds 60] [--model MODEL] [--json] [--record FILE]

`grid` runs decodes, chunks and both at many sizes and contexts, shuffled, so that no step is like the one before;
`traffic` streams that grow while one prompt after the other is computed beside them. An error is |predicted / took - 1|
and comes from the machine, too: `noise` is the median of |took / median of all steps of its shape - 1|, which is about
the least that any prediction can reach, and `against typical` the error against that median.

`cost` is what the model and the budget take of the step loop. `--record` writes what a model has learnt from the lower
quartiles of the grid's times, for simulations.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from benchmarks.scheduling.real_steps import RealSteps, Shape, grid, traffic
from benchmarks.serving.machine import describe_machine, describe_processor
from tailrace.config import EngineConfig
from tailrace.loading import LoadedModel, load_model
from tailrace.scheduler.budget import PendingPrompt, StepBudget
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import REGIME_BOUNDS, StepTimeModel
from tailrace.weights.load import open_checkpoint

CONFIG = EngineConfig(kv_memory_bytes=640 << 20)
AIM = 0.10
REGIMES = ("1 row", *(f"to {bound} rows" for bound in REGIME_BOUNDS[1:]), "more rows")
_LEARNING_ROUNDS = 150
_COST_CALLS = 200
_COST_ROUNDS = 50


class Step(NamedTuple):
    """`shape` numbers what was run, so that times of the same can be compared."""

    shape: int
    size: StepSize
    predicted_s: float
    took_s: float

    @property
    def error(self) -> float:
        return abs(self.predicted_s / self.took_s - 1.0)

    @property
    def regime(self) -> str:
        return REGIMES[sum(self.size.num_tokens > bound for bound in REGIME_BOUNDS)]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the steps of one regime, or of all. None: no shape was run often enough."""

    num_steps: int
    median_error: float
    p90_error: float
    noise: float | None
    against_typical: float | None


def drive(steps: RealSteps, model: StepTimeModel, shapes: Iterator[tuple[int, Shape]], seconds: float) -> list[Step]:
    """Predict, run and observe until the time is up, but at least two steps."""
    found: list[Step] = []
    end_s = time.monotonic() + seconds
    for number, shape in shapes:
        size, took_s = steps.run(shape)
        predicted_s = model.predict(size)
        if predicted_s is not None:
            found.append(Step(number, size, predicted_s, took_s))
        model.observe(size, took_s)
        if len(found) >= 2 and time.monotonic() > end_s:
            break
    return found


def shuffled(shapes: Sequence[Shape], rng: random.Random) -> Iterator[tuple[int, Shape]]:
    """All of them again and again, in another order each time."""
    while True:
        for number in rng.sample(range(len(shapes)), len(shapes)):
            yield number, shapes[number]


def figures(steps: Sequence[Step]) -> Figures:
    errors = sorted(step.error for step in steps)
    times_s: dict[int, list[float]] = {}
    for step in steps:
        times_s.setdefault(step.shape, []).append(step.took_s)
    typical_s = {shape: median(each) for shape, each in times_s.items() if len(each) >= 3}
    known = [step for step in steps if step.shape in typical_s]
    return Figures(
        num_steps=len(steps),
        median_error=median(errors),
        p90_error=errors[int(len(errors) * 0.9)],
        noise=median(abs(step.took_s / typical_s[step.shape] - 1.0) for step in known) if known else None,
        against_typical=median(abs(step.predicted_s / typical_s[step.shape] - 1.0) for step in known)
        if known
        else None,
    )


def by_regime(steps: Sequence[Step]) -> dict[str, Figures]:
    parts = {regime: [step for step in steps if step.regime == regime] for regime in REGIMES}
    return {"all": figures(steps)} | {regime: figures(part) for regime, part in parts.items() if part}


def learnt(steps: Sequence[Step], full_tokens: int) -> StepTimeModel:
    """From the lower quartile of the times of each shape: what a machine takes whose neighbours are quiet."""
    times_s: dict[StepSize, list[float]] = {}
    for step in steps:
        times_s.setdefault(step.size, []).append(step.took_s)
    quartiles = [(size, quantiles(each)[0] if len(each) > 1 else each[0]) for size, each in times_s.items()]
    model, rng = StepTimeModel(full_tokens), random.Random(1)
    for _ in range(_LEARNING_ROUNDS):
        for size, time_s in rng.sample(quartiles, len(quartiles)):
            model.observe(size, time_s)
    return model


def cost_us(steps: Sequence[Step], model: StepTimeModel) -> dict[str, float]:
    """Microseconds of a call, by what is called."""
    sizes = list(islice((step.size for _ in range(_COST_CALLS) for step in steps), _COST_CALLS))
    budget = StepBudget(model)
    marks = budget.marks(sizes[0], 0.1)
    pending = [PendingPrompt(600, 10.0), PendingPrompt(1_000, 8.0)]
    calls: dict[str, Callable[[StepSize], object]] = {
        "observe": lambda size: model.observe(size, 0.05),
        "predict": model.predict,
        "marks": lambda size: budget.marks(size, 0.1),
        "prefill_tokens": lambda size: budget.prefill_tokens(size, target_s=0.06, read_per_token=500, most=480),
        "target_s": lambda size: budget.target_s(size, marks, pending, 1.0, read_per_token=500, most=480),
    }
    return {name: _each_us(call, sizes) for name, call in calls.items()}


def _each_us(call: Callable[[StepSize], object], sizes: Sequence[StepSize]) -> float:
    times_s = []
    for _ in range(_COST_ROUNDS):  # short ones, the fastest of which nobody has disturbed
        started_s = time.perf_counter()
        for size in sizes:
            call(size)
        times_s.append(time.perf_counter() - started_s)
    return min(times_s) / len(sizes) * 1e6


def measure(model: LoadedModel, name: str, seconds: float) -> dict[str, Any]:
    """Everything this benchmark says, as plain values."""
    steps, rng = RealSteps(model), random.Random(1)
    sys.stderr.write(f"grid, {seconds:.0f} s\n")
    on_grid = drive(steps, model.calibrate(), shuffled(grid(steps.room), rng), seconds)
    sys.stderr.write(f"traffic, {seconds:.0f} s\n")
    in_traffic = drive(steps, model.calibrate(), enumerate(traffic(rng, steps.room)), seconds)
    recorded = learnt(on_grid, model.limits.max_tokens)
    return {
        "model": name,
        "machine": describe_machine(),
        "grid": {regime: asdict(each) for regime, each in by_regime(on_grid).items()},
        "traffic": {regime: asdict(each) for regime, each in by_regime(in_traffic).items()},
        "cost_us": cost_us(in_traffic, StepTimeModel.from_dict(recorded.to_dict())),
        "step_time": recorded.to_dict(),
    }


def show(found: dict[str, Any]) -> None:
    print(f"{found['machine']}; {found['model']}; |predicted / took - 1|, each prediction made before the step")
    for view in ("grid", "traffic"):
        print(f"{view:8} {'steps':>18} {'median':>8} {'p90':>8} {'noise':>8} {'against typical':>16}")
        for regime, each in found[view].items():
            shares = (each["median_error"], each["p90_error"], each["noise"])
            cells = " ".join("       -" if share is None else f"{share:8.1%}" for share in shares)
            against = "-" if each["against_typical"] is None else f"{each['against_typical']:.1%}"
            print(f"  {regime:14} {each['num_steps']:>10} {cells} {against:>16}")
    for view in ("grid", "traffic"):
        error = found[view]["all"]["median_error"]
        print(f"{'met' if error < AIM else 'MISSED'}: {view}, median error {error:.1%}, under {AIM:.0%} wanted")
    print("cost    " + ", ".join(f"{name} {each:.1f} µs" for name, each in found["cost_us"].items()))


def record(found: dict[str, Any], path: Path) -> None:
    """Four digits of each coefficient: the rest is noise."""
    step_time = dict(found["step_time"])
    step_time["regimes"] = [
        None if regime is None else {name: float(f"{each:.4g}") for name, each in regime.items()}
        for regime in step_time["regimes"]
    ]
    recorded = {"model": found["model"], "machine": describe_processor(), "step_time": step_time}
    path.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.steptime",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of each view [%(default)s]")
    parser.add_argument("--model", default="default")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, metavar="FILE")
    arguments = parser.parse_args(words)
    checkpoint = open_checkpoint(arguments.model)
    model = load_model(checkpoint, CONFIG)
    found = measure(model, checkpoint.name, arguments.seconds)
    model.executable.close()
    if arguments.record is not None:
        record(found, arguments.record)
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
