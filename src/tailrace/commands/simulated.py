"""What the verbs that simulate have in common: the workload as options, and figures as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveFloat, PositiveInt
from cyclopts.validators import Number
from rich.table import Table

from tailrace.bench.statistics import Spread
from tailrace.classes import STANDARD
from tailrace.errors import SetupError
from tailrace.measure.simulation.arrivals import Mix, from_trace
from tailrace.measure.simulation.cost import default_cost, read_cost
from tailrace.measure.simulation.policies.catalog import Batching, Bounds
from tailrace.measure.simulation.report import SimulationReport
from tailrace.measure.simulation.trace import conversations, read_trace
from tailrace.measure.simulation.trial import Trial
from tailrace.scheduler.budget import scale_of_targets
from tailrace.scheduler.steptime import StepTimeModel

__all__ = [
    "DEFAULT_OPTIONS",
    "Noise",
    "Policy",
    "SimulationOptions",
    "by_class",
    "compared",
    "latencies",
    "parse_mix",
    "percentiles",
    "refusals",
]

Policy = Literal["tailrace", "fcfs", "round-robin", "static", "adaptive-batch", "dynamic-length", "adaptive-both"]

Noise = Annotated[float, Parameter(validator=Number(gte=0, lte=2))]
"""Beyond 2, as many steps take a tenth of their time as ten times as long."""

_BATCHING = Batching()
_MIX = ("gold=20", "silver=50", "bronze=30")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of both verbs.

    Parameters
    ----------
    trace
        Requests as a CSV file of TIMESTAMP,ContextTokens,GeneratedTokens [conversations of Azure, 2023].
    requests
        How many of its requests to take, from the first on.
    divide_lengths
        Divides the lengths of the trace, which are those of large models with long contexts.
    classes
        How often each service class comes, as NAME=WEIGHT [gold=20 silver=50 bronze=30].
    tenants
        How many there are in each class.
    cost
        What steps take, as JSON [the default model on two cores].
    max_running
        Most requests that run at a time.
    kv_tokens
        Tokens that the KV cache holds.
    noise
        How far the time of a step lies off its cost, as the spread of a lognormal factor.
    seed
        Gives other classes, tenants, times of bursts and noise.
    """

    trace: Path | None = None
    requests: PositiveInt = 2000
    divide_lengths: PositiveFloat = 16.0
    classes: Annotated[list[str] | None, Parameter(consume_multiple=True)] = None
    tenants: PositiveInt = 8
    cost: Path | None = None
    max_running: PositiveInt = 64
    kv_tokens: PositiveInt = 32_768
    noise: Noise = 0.05
    seed: NonNegativeInt = 0

    def trial(self, batching: Batching = _BATCHING) -> Trial:
        """All but load and policy. Raises SetupError for files that cannot be read, or an unknown class."""
        traced = conversations() if self.trace is None else read_trace(self.trace)
        mix = Mix(parse_mix(self.classes or _MIX), self.tenants, self.seed)
        arrivals = from_trace(traced[: self.requests], mix, self.divide_lengths)
        cost = default_cost() if self.cost is None else read_cost(self.cost)
        return Trial(arrivals, cost, self._bounds(cost, batching), noise=self.noise, seed=self.seed)

    @property
    def source(self) -> str:
        """What the requests are, for a person."""
        name = "conversations of Azure, 2023" if self.trace is None else self.trace.name
        divided = "" if self.divide_lengths == 1.0 else f", lengths divided by {self.divide_lengths:g}"
        return f"{name}{divided}"

    def _bounds(self, cost: StepTimeModel, batching: Batching) -> Bounds:
        scale = scale_of_targets(cost, STANDARD.tightest_itl_s)
        return Bounds(
            max_running=self.max_running,
            kv_tokens=self.kv_tokens,
            classes=STANDARD.scaled(scale),
            target_scale=scale,
            batching=batching,
        )


DEFAULT_OPTIONS = SimulationOptions()


def parse_mix(words: Sequence[str]) -> dict[str, float]:
    """Read `gold=20` and the like. Raises SetupError at anything else."""
    mix: dict[str, float] = {}
    for word in words:
        name, _, weight = word.partition("=")
        if name not in STANDARD or name in mix:
            known = ", ".join(each.name for each in STANDARD)
            raise SetupError(f"--classes takes {known}, each once, as in gold=20; not {word!r}")
        mix[name] = _weight(word, weight)
    return mix


def _weight(word: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0.0 < weight < float("inf"):
        raise SetupError(f"--classes {word!r}: the weight must be a positive number, as in gold=20")
    return weight


def by_class(report: SimulationReport) -> Table:
    """How many of each class that came were served as it promises."""
    table = _numbers("class", "came", "completed", "on target", "on target/s", "refused")
    for each in report.classes:
        if each.attainment is not None:
            counts = (f"{each.num_requests:,}", f"{each.num_completed:,}", f"{each.attainment:.1%}")
            table.add_row(each.name, *counts, f"{each.goodput:.2f}", refusals(each.refused))
    return table


def latencies(report: SimulationReport) -> Table:
    """First tokens, then gaps, of each class that came."""
    table = _numbers("milliseconds", "target", "mean", "P50", "P95", "P99")
    came = [each for each in report.classes if each.num_requests]
    for each in came:
        table.add_row(f"TTFT  {each.name}", f"{each.ttft_target_ms:,.0f}", *_spread(each.ttft_ms))
    for each in came:
        table.add_row(f"ITL   {each.name}", f"{each.itl_target_ms:,.0f}", *_spread(each.itl_ms))
    return table


def _numbers(*headings: str) -> Table:
    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _spread(values: Spread) -> Iterator[str]:
    return (_number(value, 1) for value in (values.mean, values.p50, values.p95, values.p99))


def compared(reports: Sequence[SimulationReport]) -> Table:
    """A column for each policy, a row for each figure."""
    table = _numbers("", *(report.policy.replace("-", "-\n") for report in reports))
    for row in zip(*map(_figures, reports), strict=True):
        table.add_row(row[0][0], *(value for _, value in row))
    return table


def _figures(report: SimulationReport) -> Iterator[tuple[str, str]]:
    yield "requests/s", f"{report.requests_per_s:.2f}"
    yield "output tok/s", f"{report.output_tokens_per_s:.1f}"
    yield "on target/s", f"{report.goodput:.2f}"
    for name in ("p50", "p95", "p99"):
        yield f"TTFT {name.upper()} s", _seconds(getattr(report.ttft_ms, name))
    for name in ("p50", "p95", "p99"):
        yield f"ITL {name.upper()} ms", _number(getattr(report.itl_ms, name), 1)
    yield "token wait ms", _number(report.token_wait_ms, 1)
    yield "padding", f"{report.padding_share:.1%}"
    yield "KV held", f"{report.kv_held_share:.1%}"
    yield "busy", f"{report.busy_share:.1%}"
    yield "refused", f"{sum(report.refused.values()):,}"
    yield "preempted", f"{report.num_preempted:,}"
    for each in report.classes:
        if each.attainment is not None:
            yield f"{each.name} on target", f"{each.attainment:.1%}"
            yield "  TTFT P95 s", _seconds(each.ttft_ms.p95)
            yield "  ITL P95 ms", _number(each.itl_ms.p95, 1)


def percentiles(values: Spread, digits: int) -> str:
    """P50, P95 and P99."""
    return " / ".join(_number(value, digits) for value in (values.p50, values.p95, values.p99))


def refusals(refused: Mapping[str, int]) -> str:
    """How many for which reason."""
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(refused.items())) or "-"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _seconds(value_ms: float | None) -> str:
    return _number(None if value_ms is None else value_ms / 1e3, 2)
