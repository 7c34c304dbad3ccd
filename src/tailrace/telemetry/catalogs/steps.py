"""Metrics of steps, of what they compute and of how long they take; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "COMPUTED_TOKENS",
    "EXPERT_IMBALANCE",
    "EXPERT_TOKENS",
    "GENERATION_TOKENS",
    "STEP_BUDGET_TOKENS",
    "STEP_CATALOG",
    "STEP_PART_SECONDS",
    "STEP_PREDICTION_SECONDS",
    "STEP_SECONDS",
    "STEP_SEQUENCES",
    "STEP_TOKENS",
]

_STEP_S = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 4)
_STEP_SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_STEP_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)

GENERATION_TOKENS = Metric(
    "tailrace_generation_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens sampled, one of each prompt that is computed ahead included.",
    aliases=("vllm:generation_tokens",),
)
COMPUTED_TOKENS = Metric(
    "tailrace_computed_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens put through the model, by what they belong to: prompt or output.",
    labels=("part",),
)
STEP_BUDGET_TOKENS = Metric(
    "tailrace_step_budget_tokens",
    Kind.GAUGE,
    "tokens",
    "Tokens that a step may compute; how many it did is in tailrace_step_tokens.",
)
STEP_SEQUENCES = Metric(
    "tailrace_step_sequences",
    Kind.HISTOGRAM,
    "sequences",
    "Sequences that took part in a step.",
    buckets=_STEP_SEQUENCES,
)
STEP_PREDICTION_SECONDS = Metric(
    "tailrace_step_prediction_seconds",
    Kind.COUNTER,
    "seconds",
    "Time that the steps with a prediction took on the device, real, and should have taken, predicted.",
    labels=("time",),
)
STEP_TOKENS = Metric(
    "tailrace_step_tokens",
    Kind.HISTOGRAM,
    "tokens",
    "Tokens computed per step; its count is the number of steps.",
    buckets=_STEP_TOKENS,
    aliases=("vllm:iteration_tokens_total",),
)
STEP_SECONDS = Metric(
    "tailrace_step_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Length of a step, from planning to publishing.",
    buckets=_STEP_S,
)
STEP_PART_SECONDS = Metric(
    "tailrace_step_part_seconds",
    Kind.COUNTER,
    "seconds",
    "Time in steps by part: plan, compute, publish.",
    labels=("part",),
)
EXPERT_TOKENS = Metric(
    "tailrace_expert_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens that experts computed, by layer: one counts once for each of its experts. In the last layer, sampled ones.",
    labels=("layer",),
)
EXPERT_IMBALANCE = Metric(
    "tailrace_expert_imbalance_ratio",
    Kind.GAUGE,
    "ratio",
    "Tokens of a layer's busiest expert over the mean of its experts, since the model was loaded; 1: all the same.",
    labels=("layer",),
)

STEP_CATALOG = (
    GENERATION_TOKENS,
    COMPUTED_TOKENS,
    STEP_BUDGET_TOKENS,
    STEP_TOKENS,
    STEP_SEQUENCES,
    STEP_PREDICTION_SECONDS,
    STEP_SECONDS,
    STEP_PART_SECONDS,
    EXPERT_TOKENS,
    EXPERT_IMBALANCE,
)
