"""A report as a person reads it in a terminal."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table

from tailrace.bench.report import Report
from tailrace.bench.statistics import Spread

__all__ = ["render_report"]

COLUMNS = ("mean", "median", "std", "p95", "p99")


def render_report(report: Report) -> RenderableType:
    """Totals, latencies, then what to know before believing them."""
    return Group(_totals(report), "", _latencies(report), *warnings(report))


def _totals(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _total_rows(report):
        table.add_row(name, value)
    return table


def _total_rows(report: Report) -> Iterator[tuple[str, str]]:
    info, duration_s, peak = report.info, report.duration_s, report.peak_output_tokens_per_s
    yield "model", f"{info.model} at {info.url}"
    yield "workload", _workload(report)
    yield "load", _load(report)
    yield "ended", f"{report.completed} completed, {report.failed} failed, in {duration_s:.2f} s"
    yield "requests/s", f"{report.completed / duration_s:.3f}"
    yield "tokens", f"{report.input_tokens} in ({report.cached_tokens} cached), {report.output_tokens} out"
    yield (
        "output tok/s",
        f"{report.output_tokens / duration_s:.1f} (busiest second: {peak:.0f})",
    )
    yield "total tok/s", f"{(report.input_tokens + report.output_tokens) / duration_s:.1f}"
    if report.goodput is not None and report.attainment is not None:
        wanted = ", ".join(f"{name} <= {limit:g} ms" for name, limit in report.objectives.items())
        yield "goodput", f"{report.goodput:.3f} requests/s, {report.attainment:.1%} of all sent ({wanted})"


def _workload(report: Report) -> str:
    workload = report.info.workload
    return f"{workload.prompt_tokens} tokens in ({workload.shared_prefix_tokens} shared), {workload.output_tokens} out"


def _load(report: Report) -> str:
    arrivals, workload = report.info.arrivals, report.info.workload
    pace = f"{arrivals.concurrency} at a time" if arrivals.rate is None else f"{arrivals.rate:g} requests/s"
    return f"{workload.num_requests} requests, {pace}, {workload.endpoint}, seed {workload.seed}"


def _latencies(report: Report) -> Table:
    table = Table("milliseconds", *COLUMNS, box=None, padding=(0, 2, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, values in _latency_rows(report):
        table.add_row(name, *(_number(getattr(values, column)) for column in COLUMNS))
    return table


def _latency_rows(report: Report) -> Iterator[tuple[str, Spread]]:
    yield "TTFT  time to first token", report.ttft_ms
    yield "TPOT  time per output token", report.tpot_ms
    yield "ITL   between chunks", report.itl_ms
    yield "E2EL  whole answer", report.e2el_ms
    if report.info.arrivals.rate is not None:
        yield "waited in this client", report.client_queue_ms


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def warnings(report: Report) -> Iterator[str]:
    """What makes figures incomplete or doubtful, one line each."""
    if report.failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.failures.items()))
        yield f"\nfailed: {kinds}; the first: {report.first_error}"
    if report.num_without_usage:
        yield f"\n{report.num_without_usage} answers came without usage: their tokens are in no figure"
    if not report.info.is_exact:
        yield "\nprompt lengths are not exact: the server has no /tokenize that could be used, or its words are odd"
    if report.tokens_per_chunk is not None and report.tokens_per_chunk > 1.05:
        yield f"\na chunk holds {report.tokens_per_chunk:.2f} tokens on average: ITL is between chunks, not tokens"
    if report.client_cpu_s > 0.5 * report.duration_s:
        yield f"\nthis client used {report.client_cpu_s:.1f} s of CPU: the figures may be its own limits"
