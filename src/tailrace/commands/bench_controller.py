"""`tailrace bench controller`: how the scheduler's feedback answers a sudden change, simulated."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt
from cyclopts.validators import Number
from rich.console import Group, RenderableType
from rich.table import Table

from tailrace.classes import STANDARD
from tailrace.commands.figures import JsonTarget, show_figures
from tailrace.commands.simulated import Noise
from tailrace.errors import SetupError
from tailrace.measure.control.chart import TRACES, blocks, to_svg
from tailrace.measure.control.plant import NUM_KNOWN, Workload
from tailrace.measure.control.response import DEFAULT_BEND, DEFAULT_NOISE, FORMULAS, SCENARIOS, Response, Trial
from tailrace.measure.simulation.cost import default_cost, read_cost
from tailrace.scheduler.budget import scale_of_targets
from tailrace.scheduler.controller import ControllerConfig

__all__ = ["controller"]

Gain = Annotated[float, Parameter(validator=Number(gte=0, lte=1_000))]

_GAINS = ControllerConfig()
_SHOWN_SAMPLES = 55  # fit a terminal

controller = App(
    name="controller",
    help_epilogue="Examples:\n"
    "  tailrace bench controller --svg response.svg\n"
    "  tailrace bench controller --kp 1.6 --noise 0.1\n\n"
    "How each figure comes about:\n" + "\n".join(f"  {name:<10} {formula}" for name, formula in FORMULAS.items()),
)


@controller.default
def run(
    *,
    kp: Gain = _GAINS.kp,
    ki: Gain = _GAINS.ki,
    kd: Gain = _GAINS.kd,
    bend: Annotated[float, Parameter(validator=Number(gt=0, lte=1_000))] = DEFAULT_BEND,
    noise: Noise = DEFAULT_NOISE,
    seed: NonNegativeInt = 0,
    cost: Annotated[Path | None, Parameter(show_default=False)] = None,
    svg: Annotated[Path | None, Parameter(show_default=False)] = None,
    json: JsonTarget = None,
) -> None:
    """Change load, memory or speed at once, and watch how batch and pace follow: simulated, without a model.

    Steps take the time that a recorded cost gives them, on a machine as fast as the targets of the classes are made
    for. The gaps between tokens should keep to the tightest of these.

    Parameters
    ----------
    kp
        Proportional gain.
    ki
        Integral gain.
    kd
        Derivative gain.
    bend
        How many times as long as the step-time model has it each token of a step takes beyond those it knows.
    noise
        How far the time of a step lies off its cost, as the spread of a lognormal factor.
    seed
        Gives other noise.
    cost
        A step-time model that benchmarks.scheduling has recorded [the default model on two cores].
    svg
        Draw the responses to a file.
    json
        Write JSON to a file, or, without a name, to standard output.
    """
    model = default_cost() if cost is None else read_cost(cost)
    target_s = STANDARD.tightest_itl_s
    workload = Workload(target_s, scale_of_targets(model, target_s))
    trial = Trial(workload, model, ControllerConfig(kp=kp, ki=ki, kd=kd), bend, noise, seed)
    responses = [trial.respond(scenario) for scenario in SCENARIOS]
    if svg is not None:
        _write(svg, to_svg(responses))
    figures = {
        "gains": {"kp": kp, "ki": ki, "kd": kd},
        "target_ms": 1e3 * target_s,
        "speed": workload.speed,
        "bend": bend,
        "noise": noise,
        "responses": [response.to_dict() for response in responses],
    }
    show_figures(_render(trial, responses), figures, json)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise SetupError(f"cannot write {file}: {error.strerror}") from error


def _render(trial: Trial, responses: Sequence[Response]) -> RenderableType:
    conditions = Table.grid(padding=(0, 2))
    for name, value in _conditions(trial):
        conditions.add_row(name, value)
    return Group(conditions, "", _figures(responses), *map(_plot, responses))


def _conditions(trial: Trial) -> Iterator[tuple[str, str]]:
    config, workload = trial.config, trial.workload
    yield "gains", f"Kp {config.kp:g}, Ki {config.ki:g}, Kd {config.kd:g}, a sample each {1e3 * config.period_s:g} ms"
    yield "target", f"{1e3 * workload.target_s:g} ms between tokens; steps recorded, {workload.speed:.2f} times as fast"
    yield "model", f"off by a factor of {trial.bend:g} for each token of a step beyond {NUM_KNOWN}"


def _figures(responses: Sequence[Response]) -> Table:
    table = Table("after", box=None, padding=(0, 2, 0, 0))
    for heading in ("settled", "overshoot", "turns of batch", "turns of pace"):
        table.add_column(heading, justify="right")
    for response in responses:
        settled = "never" if response.settled_s is None else f"{response.settled_s:.1f} s"
        turns = (str(response.num_turns["batch"]), str(response.num_turns["pace"]))
        table.add_row(response.name, settled, f"{response.overshoot:.0%}", *turns)
    return table


def _plot(response: Response) -> RenderableType:
    """A row for each trace, a character for each sample."""
    table = Table.grid(padding=(0, 1))
    shown = response.samples[:_SHOWN_SAMPLES]
    num_before = sum(sample.at_s < 0.0 for sample in shown)
    table.add_row("", " " * num_before + f"| {response.name}", "")
    for trace in TRACES:
        values = trace.values(shown)
        table.add_row(trace.name, blocks(values, trace.top), f"0 to {trace.top:g}")
    return Group("", table)
