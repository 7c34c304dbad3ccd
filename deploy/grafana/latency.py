"""How the requests of each service class fare, beside what their class promises."""

from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panels import Panel, Query, histogram, lines, stack

__all__ = ["LATENCY"]

_CLASS = '{HERE, class=~"$class"}'


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{_CLASS}[$__rate_interval]))"


def _quantile(quantile: float, metric: str) -> Query:
    rates = _rate(f"{metric}_bucket", "class, le")
    return Query(f"histogram_quantile({quantile}, {rates})", f"{{{{class}}}} P{quantile * 100:.0f}")


def _by_class(title: str, meaning: str, metric: str, width: int = 8) -> Panel:
    return lines(
        title, meaning, "s", _quantile(0.5, metric), _quantile(0.95, metric), _quantile(0.99, metric), width=width
    )


_PROMISES = Row(
    "Promises",
    (
        lines(
            "Served as promised",
            "Of the requests that ended or were refused, the share on target. A class promises 95%.",
            "percentunit",
            Query(
                f"{_rate('tailrace_requests_on_target_total', 'class')}"
                f" / ({_rate('tailrace_requests_on_target_total', 'class')}"
                f" + {_rate('tailrace_requests_off_target_total', 'class')}"
                f" + {_rate('tailrace_requests_refused_total', 'class')})",
                "{{class}}",
            ),
            most=1,
        ),
        lines(
            "Budget burnt",
            "How many times as fast as it is given the budget of missed requests is used; 1 uses it up just in time. "
            "Over all servers.",
            "short",
            Query('job_class:tailrace_missed:ratio5m{class=~"$class"} / 0.05', "{{class}}, 5 min"),
            Query('job_class:tailrace_missed:ratio1h{class=~"$class"} / 0.05', "{{class}}, 1 h"),
            Query('job_class:tailrace_missed:ratio6h{class=~"$class"} / 0.05', "{{class}}, 6 h"),
        ),
        lines(
            "Refused",
            "Requests told to come back later, a second, by class and reason.",
            "reqps",
            Query(_rate("tailrace_requests_refused_total", "class, reason"), "{{class}} {{reason}}"),
        ),
        lines(
            "Late tokens",
            "Of the output tokens, the share that came longer after the one before than the target.",
            "percentunit",
            Query(
                f"{_rate('tailrace_output_tokens_late_total', 'class')}"
                f" / {_rate('tailrace_output_tokens_total', 'class')}",
                "{{class}}",
            ),
        ),
        lines(
            "Output tokens",
            "Of ended requests, a second.",
            "short",
            Query(_rate("tailrace_output_tokens_total", "class"), "{{class}}"),
        ),
        lines(
            "Targets on this machine",
            "What a class promises, scaled to the machine and the model.",
            "s",
            Query(f"max by (class, target) (tailrace_class_target_seconds{_CLASS})", "{{class}} {{target}}"),
        ),
    ),
)

_FIRST_TOKEN = Row(
    "First token",
    (
        _by_class(
            "First token", "From arrival at the engine to the first token.", "tailrace_time_to_first_token_seconds"
        ),
        histogram(
            "How first tokens are spread",
            "Requests by the time to their first token, in each moment.",
            "s",
            Query(_rate("tailrace_time_to_first_token_seconds_bucket", "le"), "{{le}}"),
        ),
        _by_class("Queued", "From arrival at the engine to the first step.", "tailrace_request_queue_seconds"),
        lines(
            "First text, by front end",
            "From arrival at the front end to the first text of the answer: 95 of 100 are faster.",
            "s",
            Query(
                "histogram_quantile(0.95, sum by (front_end, le)"
                " (rate(tailrace_first_text_seconds_bucket{HERE}[$__rate_interval])))",
                "{{front_end}}",
            ),
        ),
        lines(
            "Prompts computed",
            "From the first step to the first token, all classes.",
            "s",
            Query(
                "histogram_quantile(0.5, sum by (le)"
                " (rate(tailrace_request_prefill_seconds_bucket{HERE}[$__rate_interval])))",
                "P50",
            ),
            Query(
                "histogram_quantile(0.99, sum by (le)"
                " (rate(tailrace_request_prefill_seconds_bucket{HERE}[$__rate_interval])))",
                "P99",
            ),
        ),
        lines(
            "Wrong about first tokens",
            "How far the time to the first token was from what was predicted at arrival: half are nearer, and 9 of 10.",
            "percentunit",
            Query(
                "histogram_quantile(0.5, sum by (le)"
                " (rate(tailrace_time_to_first_token_prediction_error_ratio_bucket{HERE}[$__rate_interval])))",
                "P50",
            ),
            Query(
                "histogram_quantile(0.9, sum by (le)"
                " (rate(tailrace_time_to_first_token_prediction_error_ratio_bucket{HERE}[$__rate_interval])))",
                "P90",
            ),
        ),
    ),
)

_WAY = Row(
    "The way of a token",
    (
        stack(
            "Where the time to the first token goes",
            "Its mean, split from the head of the request until the first piece of the answer is with the socket.",
            "s",
            Query(
                "sum by (part) (rate(tailrace_first_token_part_seconds_total{HERE}[$__rate_interval]))"
                " / scalar(sum(rate(tailrace_first_tokens_total{HERE}[$__rate_interval])))",
                "{{part}}",
            ),
        ),
        stack(
            "Where later tokens go through",
            "Mean time of a piece in the ring, until it was text, until it was with the socket, and for a client that "
            "did not take it.",
            "s",
            Query(
                "sum by (part) (rate(tailrace_token_path_seconds_total{HERE}[$__rate_interval]))"
                " / sum by (part) (rate(tailrace_token_path_pieces_total{HERE}[$__rate_interval]))",
                "{{part}}",
            ),
        ),
        lines(
            "Rings",
            "How full they are between API processes and the engine. From 75% on, nothing more is computed for one "
            "that lags.",
            "percentunit",
            Query("max by (instance, ring) (tailrace_ring_used_ratio{HERE})", "{{instance}} {{ring}}"),
            most=1,
        ),
    ),
)

_NEXT_TOKENS = Row(
    "Next tokens",
    (
        _by_class(
            "Between tokens",
            "Between two successive pieces of an answer, as its reader sees it.",
            "tailrace_inter_token_latency_seconds",
        ),
        histogram(
            "How gaps are spread",
            "Gaps between pieces by their length, in each moment.",
            "s",
            Query(_rate("tailrace_inter_token_latency_seconds_bucket", "le"), "{{le}}"),
        ),
        _by_class(
            "Mean gap of a request",
            "From the first token to the end, over the tokens after the first.",
            "tailrace_request_time_per_output_token_seconds",
        ),
    ),
)

LATENCY = Dashboard(
    "latency",
    "Latency by class",
    "How the requests of each service class fare, beside what their class promises.",
    (_PROMISES, _FIRST_TOKEN, _WAY, _NEXT_TOKENS),
    has_classes=True,
)
