"""Service objectives of a request (`ttft:200 tpot:50`, milliseconds) and whether an answer met them."""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from tailrace.errors import SetupError

__all__ = ["Metric", "Objectives", "meets", "parse_objectives"]

Metric = Literal["ttft", "tpot", "e2el"]
Objectives = Mapping[Metric, float]
"""The most milliseconds each metric may take."""

METRICS: tuple[Metric, ...] = get_args(Metric)


def parse_objectives(words: Iterable[str]) -> Objectives:
    """Read `ttft:200` and the like. Raises SetupError at anything else."""
    objectives: dict[Metric, float] = {}
    for word in words:
        name, _, value = word.partition(":")
        metric = next((metric for metric in METRICS if metric == name), None)
        if metric is None or metric in objectives:
            raise SetupError(f"goodput takes {', '.join(METRICS)}, each once, as in ttft:200; not {word!r}")
        objectives[metric] = _positive_ms(word, value)
    return objectives


def meets(objectives: Objectives, measured_ms: Mapping[Metric, float | None]) -> bool:
    """Whether every objective was met. What could not be measured was not met."""
    return all(_is_within(measured_ms[metric], limit_ms) for metric, limit_ms in objectives.items())


def _is_within(value_ms: float | None, limit_ms: float) -> bool:
    return value_ms is not None and value_ms <= limit_ms


def _positive_ms(word: str, value: str) -> float:
    try:
        limit_ms = float(value)
    except ValueError:
        limit_ms = -1.0
    if not 0 < limit_ms < float("inf"):
        raise SetupError(f"goodput {word!r}: the limit must be a positive number of milliseconds, as in ttft:200")
    return limit_ms
