"""One benchmark from end to end: find the model, write the prompts, warm up, offer the load, report."""

import resource
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tailrace.bench.exchange import WireError
from tailrace.bench.goodput import Objectives
from tailrace.bench.load import Sample, offer_load
from tailrace.bench.prompts import PromptSet, make_prompts
from tailrace.bench.report import Report, RunInfo, make_report
from tailrace.bench.server import Prompt, Server, StreamRequest
from tailrace.bench.stream import Streamed
from tailrace.bench.workload import Arrivals, Workload
from tailrace.errors import SetupError

__all__ = ["Benchmark", "ProgressSink", "run_benchmark", "run_prompts"]

ProgressSink = Callable[[Sample], None]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Everything a run needs to know. `model` None: the first one the server lists."""

    server: Server
    workload: Workload
    arrivals: Arrivals
    model: str | None = None
    num_warmup: int = 0
    objectives: Objectives = field(default_factory=dict)
    extra_body: dict[str, Any] = field(default_factory=dict)  # merged into every request
    label: str | None = None


async def run_benchmark(benchmark: Benchmark, on_done: ProgressSink) -> Report:
    """Run it; failed requests are part of the report. Raises SetupError when nothing could be sent at all."""
    model, workload = benchmark.model or await _first_model(benchmark.server), benchmark.workload
    try:
        written = await make_prompts(benchmark.server, model, workload, workload.num_requests + benchmark.num_warmup)
    except WireError as error:
        raise SetupError(f"the server at {benchmark.server.address.url} stopped counting tokens: {error}") from error
    return await run_prompts(replace(benchmark, model=model), written, on_done)


async def run_prompts(benchmark: Benchmark, written: PromptSet, on_done: ProgressSink) -> Report:
    """The same with prompts that are there already: those to measure, then `num_warmup` to warm up with."""
    model, workload = benchmark.model or await _first_model(benchmark.server), benchmark.workload

    async def send(prompt: Prompt) -> Streamed:
        request = StreamRequest(model, prompt, workload.output_tokens, benchmark.extra_body)
        return await benchmark.server.stream(request)

    closed_loop = Arrivals(benchmark.arrivals.concurrency)
    await offer_load(written.prompts[workload.num_requests :], send, closed_loop, workload.seed, lambda _: None)
    cpu_s, started = _cpu_s(), datetime.now(UTC)
    run = await offer_load(written.prompts[: workload.num_requests], send, benchmark.arrivals, workload.seed, on_done)
    info = RunInfo(
        url=benchmark.server.address.url,
        model=model,
        workload=workload,
        arrivals=benchmark.arrivals,
        date=started.isoformat(timespec="seconds"),
        label=benchmark.label,
        is_exact=written.is_exact,
    )
    return make_report(info, run, benchmark.objectives, _cpu_s() - cpu_s)


async def _first_model(server: Server) -> str:
    try:
        return await server.first_model()
    except WireError as error:
        raise SetupError(
            f"no model found at {server.address.url}: {error}; is the server up? or give --model"
        ) from error


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
