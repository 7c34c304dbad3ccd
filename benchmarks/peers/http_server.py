"""Any engine that serves the OpenAI API: started for each load, measured by our own load client, stopped."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.peers.engine import EngineUnavailable, Load, checked
from benchmarks.serving.measure import GREEDY, benchmark_of
from benchmarks.serving.server import ServerCommand, started_server
from tailrace.bench.benchmark import Benchmark, run_prompts
from tailrace.bench.report import Report
from tailrace.errors import SetupError

__all__ = ["START_TIMEOUT_S", "HttpServer"]

START_TIMEOUT_S = 600.0  # for a large model to be read and packed


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that is built. `extra_body` is what makes it greedy and deaf to the end of sequence."""

    command: ServerCommand
    extra_body: dict[str, Any] = field(default_factory=lambda: dict(GREEDY))

    def measure(self, load: Load) -> Report:
        """Start, warm up, measure, stop. Raises EngineUnavailable."""
        try:
            with started_server(self.command) as url:
                return checked(load, asyncio.run(run_prompts(self._benchmark(url, load), load.prompts, lambda _: None)))
        except (OSError, SetupError) as error:
            raise EngineUnavailable(f"{error} (its messages: {self.command.log})") from error

    def _benchmark(self, url: str, load: Load) -> Benchmark:
        benchmark = benchmark_of(
            url,
            load.workload,
            seed=load.seed,
            num_warmup=load.workload.concurrency,
            extra_body=self.extra_body,
        )
        return replace(benchmark, model=self.command.model)
