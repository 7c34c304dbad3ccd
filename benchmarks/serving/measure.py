"""One run of a workload on a server that is up: greedy, with prompts that no cache has seen."""

import asyncio
import random
from typing import Any

from benchmarks.serving.workloads import ServingWorkload
from tailrace.bench.benchmark import Benchmark, run_benchmark
from tailrace.bench.exchange import Address
from tailrace.bench.report import Report
from tailrace.bench.server import Server
from tailrace.bench.workload import Arrivals

__all__ = ["GREEDY", "benchmark_of", "measure"]

GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


def benchmark_of(
    url: str, workload: ServingWorkload, *, seed: int, num_warmup: int, extra_body: dict[str, Any]
) -> Benchmark:
    """A workload as the load client takes it."""
    return Benchmark(
        server=Server(Address.parse(url, None), 600.0),
        workload=workload.requests(seed),
        arrivals=Arrivals(workload.concurrency),
        num_warmup=num_warmup,
        extra_body=extra_body,
        label=workload.name,
    )


def measure(url: str, workload: ServingWorkload) -> Report:
    """Prompts are fitted with the server's own tokenizer. Exits where a request fails."""
    seed = random.SystemRandom().randrange(1 << 31)
    num_warmup = min(2, workload.concurrency)
    benchmark = benchmark_of(url, workload, seed=seed, num_warmup=num_warmup, extra_body=GREEDY)
    report = asyncio.run(run_benchmark(benchmark, lambda _: None))
    if report.failures:
        raise SystemExit(f"{workload.name} at {url}: {report.failures}: {report.first_error}")
    return report
