"""Metrics of experts that are loaded when they are chosen; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "EXPERTS_CHOSEN",
    "EXPERTS_EVICTED",
    "EXPERTS_FORESEEN",
    "EXPERTS_RESIDENT",
    "EXPERT_RESIDENT_BYTES",
    "EXPERT_WAIT_SECONDS",
    "RESIDENCY_CATALOG",
]

EXPERTS_CHOSEN = Metric(
    "tailrace_experts_chosen",
    Kind.COUNTER,
    "experts",
    "Experts chosen by a layer of a step, with --lazy-experts: hit, it was in memory; miss, it had to be loaded.",
    labels=("outcome",),
)
EXPERTS_EVICTED = Metric(
    "tailrace_experts_evicted",
    Kind.COUNTER,
    "experts",
    "Experts that left memory to make room for others, with --lazy-experts.",
)
EXPERTS_FORESEEN = Metric(
    "tailrace_experts_foreseen",
    Kind.COUNTER,
    "experts",
    "Experts loaded before they were chosen, with --lazy-experts: loaded; hit, those that were then chosen in time.",
    labels=("outcome",),
)
EXPERT_WAIT_SECONDS = Metric(
    "tailrace_expert_wait_seconds",
    Kind.COUNTER,
    "seconds",
    "Time that steps waited for experts to be loaded, with --lazy-experts.",
)
EXPERTS_RESIDENT = Metric(
    "tailrace_experts_resident",
    Kind.GAUGE,
    "experts",
    "Experts in memory, of all layers, with --lazy-experts.",
)
EXPERT_RESIDENT_BYTES = Metric(
    "tailrace_expert_resident_bytes",
    Kind.GAUGE,
    "bytes",
    "Memory that experts take, with --lazy-experts, those included that are being loaded.",
)

RESIDENCY_CATALOG = (
    EXPERTS_CHOSEN,
    EXPERTS_EVICTED,
    EXPERTS_FORESEEN,
    EXPERT_WAIT_SECONDS,
    EXPERTS_RESIDENT,
    EXPERT_RESIDENT_BYTES,
)
