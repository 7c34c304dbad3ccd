"""Where the time between two steps of a serving process goes: streaming beside the engine slows both."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.serving.measure import measure
from benchmarks.serving.server import ServerCommand, started_server
from benchmarks.serving.workloads import WORKLOADS, ServingWorkload
from tailrace.records import StepRecord

__all__ = ["SERVED", "ServedStep", "SteadySteps", "measure_server", "summarize"]

SERVED = tuple(workload for workload in WORKLOADS if workload.output_tokens > 1)
LEAST_STEPS = 20  # fewer say nothing of a p99


@dataclass(frozen=True, slots=True)
class ServedStep:
    """`cpu_s`: processor time of the whole process when the record was made."""

    record: StepRecord
    cpu_s: float


@dataclass(frozen=True, slots=True)
class SteadySteps:
    """Steps in which `num_streams` decode and nothing else happens; milliseconds."""

    num_streams: int
    num_steps: int
    period_p50_ms: float
    period_p99_ms: float
    compute_p50_ms: float  # the device column: arrays, native code, results
    compute_p99_ms: float
    plan_ms: float
    commit_ms: float
    between_ms: float
    cpus_busy: float  # processor time for each second of time


def measure_server(workloads: Sequence[ServingWorkload]) -> list[SteadySteps]:
    """Serve the workloads over HTTP as `make bench` does, and look at the steps from inside."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "steps.json"
        program = (sys.executable, "-m", "benchmarks.engine.recording_server", str(file))
        with started_server(ServerCommand(lambda port: [*program, "--port", str(port)])) as url:
            for workload in workloads:
                sys.stderr.write(f"serving {workload.name}: {workload.what}\n")
                measure(url, workload)
        return summarize(msgspec.json.decode(file.read_bytes(), type=list[ServedStep]))


def summarize(steps: Sequence[ServedStep]) -> list[SteadySteps]:
    """By number of streams, ascending; those with too few steps are left out."""
    by_streams: defaultdict[int, list[tuple[ServedStep, ServedStep]]] = defaultdict(list)
    for one, following in pairwise(steps):
        streams = one.record.num_running
        if all(step.record.num_tokens == step.record.num_running == streams for step in (one, following)):
            by_streams[streams].append((one, following))
    return [_summary(streams, pairs) for streams, pairs in sorted(by_streams.items()) if len(pairs) >= LEAST_STEPS]


def _summary(num_streams: int, pairs: Sequence[tuple[ServedStep, ServedStep]]) -> SteadySteps:
    periods = [following.record.started_s - one.record.started_s for one, following in pairs]
    computes = [one.record.computed_s - one.record.planned_s for one, _ in pairs]
    return SteadySteps(
        num_streams,
        len(pairs),
        period_p50_ms=median(periods) * 1e3,
        period_p99_ms=_p99(periods) * 1e3,
        compute_p50_ms=median(computes) * 1e3,
        compute_p99_ms=_p99(computes) * 1e3,
        plan_ms=median(one.record.planned_s - one.record.started_s for one, _ in pairs) * 1e3,
        commit_ms=median(one.record.finished_s - one.record.computed_s for one, _ in pairs) * 1e3,
        between_ms=median(following.record.started_s - one.record.finished_s for one, following in pairs) * 1e3,
        cpus_busy=mean(following.cpu_s - one.cpu_s for one, following in pairs) / mean(periods),
    )


def _p99(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) * 99 // 100]
