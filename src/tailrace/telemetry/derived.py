"""Series under the names that others have for them, where they are made of more than one of ours, or of a part of one.

Like aliases: what dashboards, gateways and autoscalers read that were made for vLLM, with its names, kinds and labels;
and what client libraries of Prometheus say of a process, which here is all processes of the server together.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.telemetry.catalogs import classes as class_catalog
from tailrace.telemetry.catalogs import kv as kv_catalog
from tailrace.telemetry.catalogs import process as process_catalog
from tailrace.telemetry.catalogs import requests as request_catalog
from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.series import LabelledNumber, Labels, Number, Regroup, Series, numbers_of
from tailrace.types import Level

__all__ = ["STANDARD_SERIES", "VLLM_SERIES", "Derived", "Term", "derive"]


class Term(NamedTuple):
    """A metric of ours, the labels that its values come under, and how often they count there."""

    metric: Metric
    regroup: Regroup
    factor: int = 1


class Derived(NamedTuple):
    """The sum of its terms."""

    metric: Metric
    terms: tuple[Term, ...]


def derive(derived: Derived, series: Mapping[str, Series]) -> LabelledNumber:
    """Its values now, from series by the names of their metrics."""
    total = LabelledNumber(derived.metric)
    for term in derived.terms:
        source = series[term.metric.name]
        assert isinstance(source, Number | LabelledNumber), "made of numbers alone"
        for labels, value in numbers_of(source).items():
            if (group := term.regroup(labels)) is not None:
                total.add(term.factor * value, *group)
    return total


def _to(*labels: str) -> Regroup:
    """All under the same labels."""
    return lambda _: labels


def _engine_only(labels: Labels) -> Labels | None:
    return () if labels == (Level.ENGINE,) else None


def _source_of(labels: Labels) -> Labels:
    return ("local_cache_hit",) if labels == (Level.ENGINE,) else ("external_kv_transfer",)


VLLM_SERIES = (
    Derived(
        Metric(
            "vllm:prefix_cache_hits",
            Kind.COUNTER,
            "tokens",
            "Prompt tokens that the engine itself had; those from levels below it are in prompt_tokens_by_source.",
        ),
        (Term(kv_catalog.FOUND_TOKENS, _engine_only),),
    ),
    Derived(
        Metric(
            "vllm:prompt_tokens_by_source",
            Kind.COUNTER,
            "tokens",
            "Prompt tokens that were computed, found in the engine, or fetched from a level below it.",
            labels=("source",),
        ),
        (
            Term(kv_catalog.PROMPT_TOKENS, _to("local_compute")),
            Term(kv_catalog.FOUND_TOKENS, _to("local_compute"), -1),
            Term(kv_catalog.FOUND_TOKENS, _source_of),
        ),
    ),
    Derived(
        Metric(
            "vllm:num_requests_waiting_by_reason",
            Kind.GAUGE,
            "requests",
            "Waiting requests: for capacity, or deferred, since their prefix is being computed or fetched.",
            labels=("reason",),
        ),
        (
            Term(request_catalog.REQUESTS_WAITING, _to("capacity")),
            Term(request_catalog.REQUESTS_DEFERRED, _to("capacity"), -1),
            Term(request_catalog.REQUESTS_DEFERRED, _to("deferred")),
        ),
    ),
    Derived(
        Metric(
            "vllm:cache_config_info",
            Kind.GAUGE,
            "",
            "Always 1; the labels say how many KV blocks there are, and of how many tokens.",
            labels=("block_size", "num_gpu_blocks"),
        ),
        (Term(kv_catalog.KV_CONFIG, lambda labels: labels),),
    ),
    Derived(
        Metric(
            "vllm:admission_rejections",
            Kind.COUNTER,
            "requests",
            "Requests told to come back later, by our reasons.",
            labels=("reason",),
        ),
        (Term(class_catalog.REFUSED, lambda labels: labels[1:]),),
    ),
)

STANDARD_SERIES = (
    Derived(
        Metric(
            "process_cpu_seconds",
            Kind.COUNTER,
            "seconds",
            "Processor time that all processes of the server have taken together.",
        ),
        (Term(process_catalog.PROCESS_CPU_SECONDS, _to()),),
    ),
    Derived(
        Metric(
            "process_resident_memory_bytes",
            Kind.GAUGE,
            "bytes",
            "Physical memory of all processes of the server; what several share counts in each.",
        ),
        (Term(process_catalog.PROCESS_RESIDENT_BYTES, _to()),),
    ),
    Derived(
        Metric(
            "process_open_fds",
            Kind.GAUGE,
            "files",
            "Files and sockets that all processes of the server have open.",
        ),
        (Term(process_catalog.PROCESS_OPEN_FILES, _to()),),
    ),
)
