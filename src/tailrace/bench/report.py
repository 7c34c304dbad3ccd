"""From samples to figures, under the names of `vllm bench serve`, so that tools which read its JSON read ours."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from tailrace.bench.goodput import Metric, Objectives, meets
from tailrace.bench.load import LoadRun, Sample
from tailrace.bench.statistics import Spread, spread
from tailrace.bench.stream import Streamed
from tailrace.bench.workload import Arrivals, Workload

__all__ = ["FORMULAS", "Report", "RunInfo", "make_report", "measure_ms"]

FORMULAS = {
    "TTFT": "first chunk with output - start of writing the request",
    "E2EL": "last chunk with output - start of writing the request",
    "TPOT": "(E2EL - TTFT) / (output tokens - 1), one value a request",
    "ITL": "gaps between chunks with output, of all requests together",
    "tokens": "what the server's usage says, never the number of chunks",
    "duration": "first arrival until the end of the last answer",
    "output tok/s": "output tokens of completed requests / duration",
    "goodput": "completed requests that met all limits / duration",
    "attainment": "the same requests / all that were sent, also failed ones",
    "client queue": "start of a request - its due time (with --rate)",
    "percentiles": "linear between neighbours; std divides by n",
}
"""How each figure comes about. Failed requests have no latency; they count as sent and are shown by kind."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What was run: goes into the report as it is."""

    url: str
    model: str
    workload: Workload
    arrivals: Arrivals
    date: str
    label: str | None = None
    is_exact: bool = True  # prompt lengths were checked against the server's tokenizer


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run. Counts are of requests unless they say tokens; None where nothing was measured."""

    info: RunInfo
    duration_s: float
    completed: int
    failures: dict[str, int]  # kind -> requests
    first_error: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    num_without_usage: int  # completed, but the server did not say how many tokens
    tokens_per_chunk: float | None
    peak_output_tokens_per_s: float
    peak_in_flight: int
    objectives: Objectives
    good: int
    client_cpu_s: float
    ttft_ms: Spread
    tpot_ms: Spread
    itl_ms: Spread
    e2el_ms: Spread
    connect_ms: Spread
    client_queue_ms: Spread

    @property
    def sent(self) -> int:
        return self.completed + self.failed

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def attainment(self) -> float | None:
        return self.good / self.sent if self.objectives else None

    @property
    def goodput(self) -> float | None:
        return self.good / self.duration_s if self.objectives else None

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON-able data: vLLM's names first, then what is ours."""
        return {**self._settings(), **self._totals(), **self._latencies(), **self._extras()}

    def _settings(self) -> dict[str, Any]:
        info = self.info
        return {
            "date": info.date,
            "backend": "openai-chat" if info.workload.endpoint == "chat" else "openai",
            "endpoint_type": "openai-chat" if info.workload.endpoint == "chat" else "openai",
            "label": info.label,
            "model_id": info.model,
            "tokenizer_id": info.model,
            "num_prompts": info.workload.num_requests,
            "request_rate": "inf" if info.arrivals.rate is None else info.arrivals.rate,
            "burstiness": info.arrivals.burstiness,
            "max_concurrency": info.arrivals.concurrency,
        }

    def _totals(self) -> dict[str, Any]:
        return {
            "duration": self.duration_s,
            "completed": self.completed,
            "failed": self.failed,
            "total_input_tokens": self.input_tokens,
            "total_output_tokens": self.output_tokens,
            "request_throughput": self.completed / self.duration_s,
            "request_goodput": self.goodput,
            "output_throughput": self.output_tokens / self.duration_s,
            "total_token_throughput": (self.input_tokens + self.output_tokens) / self.duration_s,
            "max_output_tokens_per_s": self.peak_output_tokens_per_s,
            "max_concurrent_requests": self.peak_in_flight,
        }

    def _latencies(self) -> dict[str, Any]:
        named = {
            "ttft": self.ttft_ms,
            "tpot": self.tpot_ms,
            "itl": self.itl_ms,
            "e2el": self.e2el_ms,
            "connect": self.connect_ms,
            "client_queue": self.client_queue_ms,
        }
        return {f"{field}_{name}_ms": value for name, of in named.items() for field, value in asdict(of).items()}

    def _extras(self) -> dict[str, Any]:
        info = self.info
        return {
            "url": info.url,
            "seed": info.workload.seed,
            "prompt_tokens": info.workload.prompt_tokens,
            "shared_prefix_tokens": info.workload.shared_prefix_tokens,
            "output_tokens": info.workload.output_tokens,
            "is_prompt_length_exact": info.is_exact,
            "total_cached_tokens": self.cached_tokens,
            "completed_without_usage": self.num_without_usage,
            "tokens_per_chunk": self.tokens_per_chunk,
            "goodput_objectives_ms": dict(self.objectives),
            "slo_attainment": self.attainment,
            "failed_by_kind": self.failures,
            "first_error": self.first_error,
            "client_cpu_s": self.client_cpu_s,
        }


def make_report(info: RunInfo, run: LoadRun, objectives: Objectives, client_cpu_s: float) -> Report:
    """Work out every figure of a run."""
    whole = [sample.streamed for sample in run.samples if sample.streamed.is_ok]
    broken = [sample.streamed for sample in run.samples if not sample.streamed.is_ok]
    counted = [streamed for streamed in whole if streamed.output_tokens is not None]
    measured = [measure_ms(streamed) for streamed in whole]
    output_tokens = sum(streamed.output_tokens or 0 for streamed in counted)
    num_chunks = sum(len(streamed.chunk_s) for streamed in counted)
    return Report(
        info=info,
        duration_s=run.duration_s,
        completed=len(whole),
        failures=dict(Counter(streamed.error_kind or "" for streamed in broken)),
        first_error=broken[0].error if broken else None,
        input_tokens=sum(streamed.prompt_tokens or 0 for streamed in whole),
        output_tokens=output_tokens,
        cached_tokens=sum(streamed.cached_tokens or 0 for streamed in whole),
        num_without_usage=len(whole) - len(counted),
        tokens_per_chunk=output_tokens / num_chunks if num_chunks else None,
        peak_output_tokens_per_s=_peak_tokens_per_s(counted, run.started_s),
        peak_in_flight=_peak_in_flight(run.samples),
        objectives=objectives,
        good=sum(meets(objectives, values) for values in measured),
        client_cpu_s=client_cpu_s,
        ttft_ms=_spread_of("ttft", measured),
        tpot_ms=_spread_of("tpot", [measure_ms(streamed) for streamed in counted if (streamed.output_tokens or 0) > 1]),
        itl_ms=spread(_gaps_s(whole), 1e3),
        e2el_ms=_spread_of("e2el", measured),
        connect_ms=spread((streamed.connect_s for streamed in whole), 1e3),
        client_queue_ms=spread((sample.queue_s for sample in run.samples), 1e3),
    )


def measure_ms(streamed: Streamed) -> dict[Metric, float | None]:
    """The latencies of one completed answer. A single token meets any TPOT (0); without a token count it is unknown."""
    first_ms = (streamed.chunk_s[0] - streamed.sent_s) * 1e3
    last_ms = (streamed.chunk_s[-1] - streamed.sent_s) * 1e3
    tokens = streamed.output_tokens
    tpot_ms = None if tokens is None else (last_ms - first_ms) / (tokens - 1) if tokens > 1 else 0.0
    return {"ttft": first_ms, "tpot": tpot_ms, "e2el": last_ms}


def _spread_of(metric: Metric, measured: Iterable[dict[Metric, float | None]]) -> Spread:
    return spread(value for values in measured if (value := values[metric]) is not None)


def _gaps_s(whole: Iterable[Streamed]) -> Iterator[float]:
    return (later - earlier for streamed in whole for earlier, later in pairwise(streamed.chunk_s))


def _peak_tokens_per_s(counted: Iterable[Streamed], started_s: float) -> float:
    """The busiest second of the run; a request's tokens are spread evenly over its chunks."""
    tokens: dict[int, float] = {}
    for streamed in counted:
        share = (streamed.output_tokens or 0) / len(streamed.chunk_s)
        for at_s in streamed.chunk_s:
            second = int(at_s - started_s)
            tokens[second] = tokens.get(second, 0.0) + share
    return max(tokens.values(), default=0.0)


def _peak_in_flight(samples: Sequence[Sample]) -> int:
    changes = [(sample.streamed.sent_s, 1) for sample in samples] + [
        (sample.streamed.ended_s, -1) for sample in samples
    ]
    level = peak = 0
    for _, change in sorted(changes):
        level += change
        peak = max(peak, level)
    return peak
