"""Prints docs/metrics.md, which is made of the catalog: every metric, what it means, and its other names."""

import sys
from collections.abc import Iterator

from tailrace.telemetry.catalog import GROUPS, Kind, Metric
from tailrace.telemetry.derived import STANDARD_SERIES, VLLM_SERIES, Derived

__all__ = ["page"]

HEAD = """\
# Metrics

<!-- Made of src/tailrace/telemetry/catalog.py by `make metrics-page`. -->

`GET /metrics` shows all that a server counts, in all of its processes together, in Prometheus' text format, or as
OpenMetrics where the Accept header asks for it. There the latency histograms have exemplars: of each bucket the trace
id of the latest request that was traced. Counters go on when the engine or another process has died and was started
again, from what it had counted when somebody last looked. Times are in seconds, sizes in bytes, ratios from 0 to 1.
Labels have few values: classes are at most 8.

Of a histogram NAME there are NAME_bucket, NAME_count and NAME_sum.
"""
VLLM_HEAD = """
## Under vLLM's names

What dashboards, gateways and autoscalers read that were made for vLLM: the same name, kind and meaning, with the labels
`model_name` and `engine` besides. What is by class here is the sum over the classes there.
"""
STANDARD_HEAD = """
## Under the names of client libraries

What client libraries of Prometheus say of a process, here of all processes of the server together.
"""


def page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield HEAD
    for group in GROUPS:
        yield f"\n## {group.title}\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n"
        yield from map(_row, group.metrics)
        yield from _buckets(group.metrics)
    yield f"{VLLM_HEAD}\n| Metric | Kind | Labels | Ours |\n|---|---|---|---|\n"
    yield from _aliases()
    yield from map(_derived, VLLM_SERIES)
    yield f"{STANDARD_HEAD}\n| Metric | Kind | Labels | Ours |\n|---|---|---|---|\n"
    yield from map(_derived, STANDARD_SERIES)


def _row(metric: Metric) -> str:
    unit = f", {metric.unit}" if metric.unit else ""
    return f"| `{metric.scraped_name}` | {metric.kind}{unit} | {_labels(metric.labels)} | {metric.help} |\n"


def _labels(labels: tuple[str, ...]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def _buckets(metrics: tuple[Metric, ...]) -> Iterator[str]:
    """Which bounds the histograms of a group have, those with the same together."""
    names: dict[tuple[float, ...], list[str]] = {}
    for metric in metrics:
        if metric.buckets:
            names.setdefault(metric.buckets, []).append(f"`{metric.name}`")
    for buckets, having in names.items():
        yield f"\nBuckets of {', '.join(having)}: {', '.join(f'{bound:g}' for bound in buckets)}.\n"


def _aliases() -> Iterator[str]:
    for group in GROUPS:
        for metric in group.metrics:
            for alias in metric.aliases:
                theirs = f"{alias}_total" if metric.kind is Kind.COUNTER else alias
                labels = _labels(metric.without("class").labels)
                yield f"| `{theirs}` | {metric.kind} | {labels} | `{metric.scraped_name}` |\n"


def _derived(derived: Derived) -> str:
    metric = derived.metric
    ours = ", ".join(dict.fromkeys(f"`{term.metric.scraped_name}`" for term in derived.terms))
    return f"| `{metric.scraped_name}` | {metric.kind} | {_labels(metric.labels)} | {metric.help} Of {ours}. |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
