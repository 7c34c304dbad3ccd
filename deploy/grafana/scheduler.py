"""What steps are made of, how well their time is foreseen, and who gives way to whom."""

from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panels import Query, histogram, lines, stack

__all__ = ["SCHEDULER"]


def _quantiles(metric: str) -> tuple[Query, Query]:
    rates = f"sum by (le) (rate({metric}_bucket{{HERE}}[$__rate_interval]))"
    return Query(f"histogram_quantile(0.5, {rates})", "P50"), Query(f"histogram_quantile(0.99, {rates})", "P99")


_STEPS = Row(
    "Steps",
    (
        lines("Length of a step", "From planning to publishing.", "s", *_quantiles("tailrace_step_seconds")),
        stack(
            "Where the engine's time goes",
            "Share of the step loop's time, by part; they add up to all of it.",
            "percentunit",
            Query(
                "sum by (part) (rate(tailrace_engine_seconds_total{HERE}[$__rate_interval]))"
                " / scalar(count(tailrace_build_info{HERE}))",
                "{{part}}",
            ),
        ),
        lines(
            "Steps a second",
            "Of each server.",
            "short",
            Query("sum by (instance) (rate(tailrace_step_seconds_count{HERE}[$__rate_interval]))", "{{instance}}"),
        ),
        histogram(
            "Tokens of a step",
            "Steps by the tokens that they compute, in each moment.",
            "short",
            Query("sum by (le) (rate(tailrace_step_tokens_bucket{HERE}[$__rate_interval]))", "{{le}}"),
        ),
        stack(
            "Time of ops",
            "Share of the time of timed steps, one in 64, by kind of op.",
            "percentunit",
            Query(
                "sum by (op) (rate(tailrace_op_seconds_total{HERE}[$__rate_interval]))"
                " / scalar(sum(rate(tailrace_timed_step_seconds_total{HERE}[$__rate_interval])))",
                "{{op}}",
            ),
        ),
        lines(
            "Memory traffic of ops",
            "Bytes that an op had to move over the time that it took; tailrace roofline says what the machine can do.",
            "Bps",
            Query(
                "sum by (op) (rate(tailrace_op_bytes_total{HERE}[$__rate_interval]))"
                " / sum by (op) (rate(tailrace_op_seconds_total{HERE}[$__rate_interval]))",
                "{{op}}",
            ),
        ),
        lines(
            "Sequences of a step",
            "The mean number that took part, and the tokens that a step may compute.",
            "short",
            Query(
                "sum by (instance) (rate(tailrace_step_sequences_sum{HERE}[$__rate_interval]))"
                " / sum by (instance) (rate(tailrace_step_sequences_count{HERE}[$__rate_interval]))",
                "{{instance}} sequences",
            ),
            Query("tailrace_step_budget_tokens{HERE}", "{{instance}} budget"),
        ),
        stack(
            "Tokens computed",
            "A second, by what they belong to.",
            "short",
            Query("sum by (part) (rate(tailrace_computed_tokens_total{HERE}[$__rate_interval]))", "{{part}}"),
        ),
        lines(
            "Wrong about the time of steps",
            "How far off the step-time model was, over the time that the step took.",
            "percentunit",
            *_quantiles("tailrace_step_prediction_error_ratio"),
        ),
    ),
)

_QUEUE = Row(
    "Queue and running set",
    (
        stack(
            "Running, by class",
            "Requests in the running set.",
            "short",
            Query("sum by (class) (tailrace_class_requests_running{HERE})", "{{class}}"),
        ),
        stack(
            "Waiting, by class",
            "Requests queued for the running set.",
            "short",
            Query("sum by (class) (tailrace_class_requests_waiting{HERE})", "{{class}}"),
        ),
        stack(
            "Refused, by reason",
            "Requests told to come back later, a second.",
            "reqps",
            Query("sum by (reason) (rate(tailrace_requests_refused_total{HERE}[$__rate_interval]))", "{{reason}}"),
        ),
    ),
)

_CONTROL = Row(
    "Control",
    (
        lines(
            "Requests that may run",
            "By the controller.",
            "short",
            Query("tailrace_requests_running_limit{HERE}", "{{instance}} limit"),
            Query("tailrace_requests_running{HERE}", "{{instance}} running"),
        ),
        lines(
            "Pace, and scale of targets",
            "The controller's factor on the time that a step may take; how many times as long as configured targets "
            "are on this machine.",
            "short",
            Query("tailrace_step_pace_ratio{HERE}", "{{instance}} pace"),
            Query("tailrace_target_scale_ratio{HERE}", "{{instance}} scale"),
        ),
        stack(
            "Sent back to the queue",
            "A second, by cause: a stream needed blocks, or one of a better class would have been late.",
            "reqps",
            Query(
                "sum by (class, cause) (rate(tailrace_requests_preempted_total{HERE}[$__rate_interval]))",
                "{{class}} {{cause}}",
            ),
        ),
        stack(
            "Tokens computed again",
            "Of requests that had been sent back, a second.",
            "short",
            Query("sum by (class) (rate(tailrace_tokens_recomputed_total{HERE}[$__rate_interval]))", "{{class}}"),
        ),
        lines(
            "Computed ahead",
            "Prompt tokens a second that nobody had asked for yet.",
            "short",
            Query("sum by (instance) (rate(tailrace_warmup_tokens_total{HERE}[$__rate_interval]))", "{{instance}}"),
        ),
    ),
)

SCHEDULER = Dashboard(
    "scheduler",
    "Scheduler",
    "What steps are made of, how well their time is foreseen, and who gives way to whom.",
    (_STEPS, _QUEUE, _CONTROL),
)
