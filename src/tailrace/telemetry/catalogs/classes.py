"""Metrics of service classes and of what keeps their targets; part of the catalog.

There are at most 8 classes. How many of a class's requests were served as promised: those on target over those on and
off target and those refused.
"""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "CLASS_CATALOG",
    "CLASS_RUNNING",
    "CLASS_TARGET_SECONDS",
    "CLASS_WAITING",
    "LATE_TOKENS",
    "OFF_TARGET",
    "ON_TARGET",
    "OUTPUT_TOKENS",
    "PACE",
    "PREEMPTED",
    "RECOMPUTED_TOKENS",
    "REFUSED",
    "RUNNING_LIMIT",
    "STEP_PREDICTION_ERROR",
    "TARGET_SCALE",
]

CLASS_RUNNING = Metric(
    "tailrace_class_requests_running",
    Kind.GAUGE,
    "requests",
    "Requests in the running set, by class.",
    labels=("class",),
)
CLASS_WAITING = Metric(
    "tailrace_class_requests_waiting",
    Kind.GAUGE,
    "requests",
    "Requests queued for the running set, by class.",
    labels=("class",),
)
ON_TARGET = Metric(
    "tailrace_requests_on_target",
    Kind.COUNTER,
    "requests",
    "Ended requests whose first token, and 95 of 100 of the others, came within the targets.",
    labels=("class",),
)
OFF_TARGET = Metric(
    "tailrace_requests_off_target",
    Kind.COUNTER,
    "requests",
    "Ended requests that were not served within their targets; not who left before the first token was due.",
    labels=("class",),
)
REFUSED = Metric(
    "tailrace_requests_refused",
    Kind.COUNTER,
    "requests",
    "Requests told to come back later, at any front end, by reason: queue_full, tenant_limit, target_unreachable, "
    "queue_timeout, rate_limited, shed.",
    labels=("class", "reason"),
)
OUTPUT_TOKENS = Metric(
    "tailrace_output_tokens",
    Kind.COUNTER,
    "tokens",
    "Output tokens of ended requests.",
    labels=("class",),
)
LATE_TOKENS = Metric(
    "tailrace_output_tokens_late",
    Kind.COUNTER,
    "tokens",
    "Output tokens that came longer after the one before than the target, of ended requests.",
    labels=("class",),
)
PREEMPTED = Metric(
    "tailrace_requests_preempted",
    Kind.COUNTER,
    "requests",
    "Running requests sent back to the queue, by cause: room (a stream needed blocks), deadline (of a better class).",
    labels=("class", "cause"),
)
RECOMPUTED_TOKENS = Metric(
    "tailrace_tokens_recomputed",
    Kind.COUNTER,
    "tokens",
    "Tokens of preempted requests that were computed again: in no block, or no level had it any more; by cause.",
    labels=("class", "cause"),
)
TARGET_SCALE = Metric(
    "tailrace_target_scale_ratio",
    Kind.GAUGE,
    "ratio",
    "How many times as long as configured the targets of all classes are, to fit this machine and model.",
)
CLASS_TARGET_SECONDS = Metric(
    "tailrace_class_target_seconds",
    Kind.GAUGE,
    "seconds",
    "What a class promises on this machine, scaled as tailrace_target_scale_ratio says: first_token, from arrival to "
    "it; token_gap, from one token to the next.",
    labels=("class", "target"),
)
RUNNING_LIMIT = Metric(
    "tailrace_requests_running_limit",
    Kind.GAUGE,
    "requests",
    "Requests that may run at once, by the controller.",
)
PACE = Metric(
    "tailrace_step_pace_ratio",
    Kind.GAUGE,
    "ratio",
    "The controller's factor on the time that a step may take.",
)
STEP_PREDICTION_ERROR = Metric(
    "tailrace_step_prediction_error_ratio",
    Kind.HISTOGRAM,
    "ratio",
    "How far off the step-time model was, over the time that the step took; when it knew too little, nothing.",
    buckets=(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5),
)

CLASS_CATALOG: tuple[Metric, ...] = (
    CLASS_RUNNING,
    CLASS_WAITING,
    ON_TARGET,
    OFF_TARGET,
    REFUSED,
    OUTPUT_TOKENS,
    LATE_TOKENS,
    PREEMPTED,
    RECOMPUTED_TOKENS,
    TARGET_SCALE,
    CLASS_TARGET_SECONDS,
    RUNNING_LIMIT,
    PACE,
    STEP_PREDICTION_ERROR,
)
