"""Engines whose figures are written down beforehand, and the reports they give."""

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.peers.engine import EngineUnavailable, Load
from benchmarks.peers.rounds import Measurement
from benchmarks.serving.workloads import WORKLOADS, ServingWorkload
from tailrace.bench.load import LoadRun, Sample
from tailrace.bench.report import Report, RunInfo, make_report
from tailrace.bench.stream import Streamed
from tailrace.bench.workload import Arrivals

__all__ = ["BY_NAME", "ScriptedRunner", "measurement", "report"]

BY_NAME = {workload.name: workload for workload in WORKLOADS}


def report(
    workload: ServingWorkload,
    *,
    ttft_s: float = 0.1,
    gap_s: float = 0.01,
    prompt_tokens: int | None = None,
    lost_tokens: int = 0,
    error: str = "",
) -> Report:
    """All requests at once, each with the same even stream, the first of them without its last `lost_tokens`."""

    def stream(num_tokens: int) -> Streamed:
        chunk_s = [ttft_s + gap_s * chunk for chunk in range(num_tokens)]
        return Streamed(
            chunk_s=chunk_s,
            ended_s=chunk_s[-1],
            prompt_tokens=prompt_tokens or workload.prompt_tokens,
            output_tokens=num_tokens,
            finish_reason="length",
            error_kind="http_503" if error else None,
            error=error,
        )

    whole = workload.output_tokens
    streams = [stream(whole - lost_tokens), *(stream(whole) for _ in range(workload.num_requests - 1))]
    info = RunInfo("scripted", "m", workload.requests(0), Arrivals(workload.concurrency), "2026-11-29", workload.name)
    run = LoadRun([Sample(0.0, streamed) for streamed in streams], 0.0, max(streamed.ended_s for streamed in streams))
    return make_report(info, run, {}, 0.0)


def measurement(
    engine: str,
    workload: str,
    round_index: int = 0,
    *,
    ttft_s: float = 0.1,
    gap_s: float = 0.01,
    other_cpu: float = 0.0,
) -> Measurement:
    return Measurement(engine, round_index, report(BY_NAME[workload], ttft_s=ttft_s, gap_s=gap_s), other_cpu)


@dataclass
class ScriptedRunner:
    """Notes its loads in a list that it may share with others; fails where `fails_in` says so."""

    name: str
    taken: list[tuple[str, Load]] = field(default_factory=list)
    fails_in: Callable[[Load], bool] = lambda _load: False

    def measure(self, load: Load) -> Report:
        self.taken.append((self.name, load))
        if self.fails_in(load):
            raise EngineUnavailable("no token within 120 s")
        return report(load.workload)
