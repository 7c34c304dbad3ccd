"""From a simulated run to figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from statistics import median
from typing import Any

from tailrace.bench.statistics import Spread, spread
from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.measure.simulation.outcome import Outcome, Served

__all__ = ["FORMULAS", "ClassFigures", "SimulationReport", "make_report"]

FORMULAS = {
    "TTFT": "first token - arrival",
    "ITL": "gaps between a request's tokens, of all requests together",
    "on target": "TTFT within the class's target, and 95 of 100 of its gaps within the target for these",
    "attainment": "requests on target / all that arrived, also refused ones",
    "goodput": "requests on target / duration",
    "requests/s": "completed requests / duration, from the first arrival to the last token",
    "token wait": "from the token before (the first: from arrival) to a token, mean over all tokens",
    "padding": "rows computed for nobody / rows computed",
    "KV held": "blocks that requests hold / all blocks, mean over the time of steps",
    "busy": "time in steps / duration",
}
"""How each figure comes about."""

_MAY_BE_LATE = 0.05  # of a request's gaps


@dataclass(frozen=True, slots=True)
class ClassFigures:
    name: str
    ttft_target_ms: float
    itl_target_ms: float
    num_requests: int
    num_completed: int
    num_on_target: int
    goodput: float  # requests on target a second
    refused: dict[str, int]  # by reason
    ttft_ms: Spread
    itl_ms: Spread

    @property
    def attainment(self) -> float | None:
        return self.num_on_target / self.num_requests if self.num_requests else None


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """Of one policy on one workload. Shares are of 1; None where nothing was measured."""

    policy: str
    num_requests: int
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float
    goodput: float
    ttft_ms: Spread
    itl_ms: Spread
    token_wait_ms: float | None
    padding_share: float
    kv_held_share: float
    busy_share: float
    num_steps: int
    num_preempted: int
    refused: dict[str, int]
    step_error: float | None  # median of |predicted - taken| / taken
    ttft_error: float | None  # the same of what requests were told to expect, of those that waited
    classes: tuple[ClassFigures, ...]

    def to_dict(self) -> dict[str, Any]:
        attainments = [asdict(each) | {"attainment": each.attainment} for each in self.classes]
        return asdict(self) | {"classes": attainments}


def make_report(policy: str, run: Outcome, classes: ServiceClasses) -> SimulationReport:
    served = list(run.served.values())
    begin_s = min(one.arrival.at_s for one in served)
    duration_s = max((one.token_s[-1] for one in served if one.token_s), default=begin_s) - begin_s
    figures = tuple(_class_figures(each, served, duration_s) for each in classes)
    num_tokens = sum(len(one.token_s) for one in served)
    busy_s = max(run.busy_s, 1e-9)
    return SimulationReport(
        policy=policy,
        num_requests=len(served),
        duration_s=duration_s,
        requests_per_s=_per_s(sum(one.is_complete for one in served), duration_s),
        output_tokens_per_s=_per_s(num_tokens, duration_s),
        goodput=sum(each.goodput for each in figures),
        ttft_ms=_ttft_ms(served),
        itl_ms=_itl_ms(served),
        token_wait_ms=_token_wait_ms(served),
        padding_share=run.num_padding_tokens / max(run.num_tokens, 1),
        kv_held_share=run.num_held_blocks_s / busy_s / run.num_blocks_total,
        busy_share=_per_s(run.busy_s, duration_s),
        num_steps=run.num_steps,
        num_preempted=run.num_preempted,
        refused=_refused(served),
        step_error=median(run.step_errors) if run.step_errors else None,
        ttft_error=_ttft_error(served),
        classes=figures,
    )


def _class_figures(each: ServiceClass, served: Iterable[Served], duration_s: float) -> ClassFigures:
    own = [one for one in served if one.arrival.class_name == each.name]
    num_on_target = sum(_is_on_target(one, each) for one in own)
    return ClassFigures(
        name=each.name,
        ttft_target_ms=1e3 * each.ttft_s,
        itl_target_ms=1e3 * each.itl_s,
        num_requests=len(own),
        num_completed=sum(one.is_complete for one in own),
        num_on_target=num_on_target,
        goodput=_per_s(num_on_target, duration_s),
        refused=_refused(own),
        ttft_ms=_ttft_ms(own),
        itl_ms=_itl_ms(own),
    )


def _is_on_target(one: Served, targets: ServiceClass) -> bool:
    if not one.is_complete or one.ttft_s is None or one.ttft_s > targets.ttft_s:
        return False
    num_late = sum(gap_s > targets.itl_s for gap_s in _gaps_s(one))
    return num_late <= _MAY_BE_LATE * (len(one.token_s) - 1)


def _gaps_s(one: Served) -> list[float]:
    return [after - before for before, after in pairwise(one.token_s)]


def _ttft_ms(served: Iterable[Served]) -> Spread:
    return spread((one.ttft_s for one in served if one.ttft_s is not None), 1e3)


def _itl_ms(served: Iterable[Served]) -> Spread:
    return spread(chain.from_iterable(map(_gaps_s, served)), 1e3)


def _token_wait_ms(served: Sequence[Served]) -> float | None:
    """The gaps of a request and its TTFT add up to the time of its last token."""
    answered = [one for one in served if one.token_s]
    num_tokens = sum(len(one.token_s) for one in answered)
    return 1e3 * sum(one.token_s[-1] - one.arrival.at_s for one in answered) / num_tokens if num_tokens else None


def _refused(served: Iterable[Served]) -> dict[str, int]:
    return dict(Counter(str(one.refused_for) for one in served if one.refused_for is not None))


def _ttft_error(served: Iterable[Served]) -> float | None:
    errors = [
        abs(one.predicted_ttft_s - one.ttft_s) / one.ttft_s
        for one in served
        if one.predicted_ttft_s is not None and one.ttft_s
    ]
    return median(errors) if errors else None


def _per_s(count: float, duration_s: float) -> float:
    return count / duration_s if duration_s > 0 else 0.0
