"""The figures that serving is judged by, each read from the report of a run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.serving.workloads import ServingWorkload
from tailrace.bench.report import Report

__all__ = ["ITL_P50", "ITL_P99", "OUTPUT_RATE", "PROMPT_RATE", "TTFT_P50", "TTFT_P95", "Figure", "figures_of"]


@dataclass(frozen=True, slots=True)
class Figure:
    """`is_rate`: more is better; of the others, times, less is."""

    name: str
    of: Callable[[Report], float]
    digits: int = 1
    is_rate: bool = False


def _value(value: float | None) -> float:
    """A figure that a run of complete requests always has, or NaN: W5 has no gaps between tokens."""
    return float("nan") if value is None else value


OUTPUT_RATE = Figure("output tok/s", lambda report: report.output_tokens / report.duration_s, 0, is_rate=True)
PROMPT_RATE = Figure(
    "prompt tok/s",
    lambda report: 1000 * report.info.workload.prompt_tokens / _value(report.ttft_ms.p50),
    0,
    is_rate=True,
)
TTFT_P50 = Figure("TTFT p50 ms", lambda report: _value(report.ttft_ms.p50))
TTFT_P95 = Figure("TTFT p95 ms", lambda report: _value(report.ttft_ms.p95))
ITL_P50 = Figure("ITL p50 ms", lambda report: _value(report.itl_ms.p50), 2)
ITL_P99 = Figure("ITL p99 ms", lambda report: _value(report.itl_ms.p99), 2)


def figures_of(workload: ServingWorkload) -> Sequence[Figure]:
    """What a workload shows: with one token there is nothing between tokens."""
    if workload.output_tokens == 1:
        return PROMPT_RATE, TTFT_P50
    return OUTPUT_RATE, TTFT_P50, TTFT_P95, ITL_P50, ITL_P99
