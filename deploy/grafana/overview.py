"""The first dashboard to look at: is it well, what does it do, and what does it take."""

from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panels import Panel, Query, lines, number, stack, states

__all__ = ["OVERVIEW"]

_BAD_SHARE = ((0.01, "yellow"), (0.05, "red"))
_FULL = ((0.8, "yellow"), (0.95, "red"))


def _quantile(quantile: float, metric: str) -> Query:
    rates = f"sum by (le) (rate({metric}_bucket{{HERE}}[$__rate_interval]))"
    return Query(f"histogram_quantile({quantile}, {rates})", f"P{quantile * 100:.0f}")


def _percentiles(title: str, meaning: str, metric: str) -> Panel:
    return lines(title, meaning, "s", _quantile(0.5, metric), _quantile(0.95, metric), _quantile(0.99, metric))


_NOW = Row(
    "Now",
    (
        number("Servers", "Servers that answer.", "short", Query("count(tailrace_build_info{HERE})")),
        number(
            "Tokens",
            "Tokens sampled, a second.",
            "short",
            Query("sum(rate(tailrace_generation_tokens_total{HERE}[$__rate_interval]))"),
        ),
        number("Running", "Requests that are computed.", "short", Query("sum(tailrace_requests_running{HERE})")),
        number(
            "Waiting",
            "Requests queued for the running set.",
            "short",
            Query("sum(tailrace_requests_waiting{HERE})"),
            ((1, "yellow"), (100, "red")),
        ),
        number(
            "Missed",
            "Of the requests that were judged, the share that missed its targets or was refused, in five minutes.",
            "percentunit",
            Query("sum(job_class:tailrace_missed:rate5m) / sum(job_class:tailrace_judged:rate5m)"),
            _BAD_SHARE,
        ),
        number(
            "Failed",
            "Of the requests that ended, the share that ended with an error.",
            "percentunit",
            Query(
                'sum(rate(tailrace_requests_finished_total{HERE, finished_reason="error"}[$__rate_interval]))'
                " / sum(rate(tailrace_requests_finished_total{HERE}[$__rate_interval]))"
            ),
            _BAD_SHARE,
        ),
        number(
            "KV in use",
            "Share of the KV blocks that running requests use, where it is largest.",
            "percentunit",
            Query("max(tailrace_kv_usage_ratio{HERE})"),
            _FULL,
        ),
        number(
            "Cache hits",
            "Of the prompt tokens, the share that needed no computing.",
            "percentunit",
            Query(
                "sum(rate(tailrace_prompt_tokens_cached_total{HERE}[$__rate_interval]))"
                " / sum(rate(tailrace_prompt_tokens_total{HERE}[$__rate_interval]))"
            ),
        ),
    ),
)

_TRAFFIC = Row(
    "Traffic",
    (
        lines(
            "Tokens a second",
            "Sampled; put through the model, by what they belong to; and taken from the cache.",
            "short",
            Query("sum(rate(tailrace_generation_tokens_total{HERE}[$__rate_interval]))", "sampled"),
            Query("sum by (part) (rate(tailrace_computed_tokens_total{HERE}[$__rate_interval]))", "computed, {{part}}"),
            Query("sum(rate(tailrace_prompt_tokens_cached_total{HERE}[$__rate_interval]))", "cached"),
        ),
        stack(
            "Requests ended",
            "Each second, by how.",
            "reqps",
            Query(
                "sum by (finished_reason) (rate(tailrace_requests_finished_total{HERE}[$__rate_interval]))",
                "{{finished_reason}}",
            ),
            Query("sum by (reason) (rate(tailrace_requests_refused_total{HERE}[$__rate_interval]))", "{{reason}}"),
        ),
        lines(
            "Requests here",
            "In the running set, and queued for it.",
            "short",
            Query("sum(tailrace_requests_running{HERE})", "running"),
            Query("sum(tailrace_requests_waiting{HERE})", "waiting"),
        ),
        _percentiles(
            "First token", "From arrival at the engine to the first token.", "tailrace_time_to_first_token_seconds"
        ),
        _percentiles(
            "Between tokens", "Between two successive pieces of an answer.", "tailrace_inter_token_latency_seconds"
        ),
        _percentiles("Whole request", "From arrival at the engine to the end.", "tailrace_request_seconds"),
    ),
)

_EVENTS = Row(
    "Events",
    (
        lines(
            "What happened",
            "Events in the last five minutes, by kind; the log says each.",
            "short",
            Query("sum by (kind) (increase(tailrace_events_total{HERE}[5m]))", "{{kind}}"),
        ),
        states(
            "Rules that act",
            "A rule that fired does something until it clears: /debug/rules says what it saw.",
            Query("tailrace_rule_active{HERE}", "{{instance}} {{rule}}"),
            {0: ("quiet", "transparent"), 1: ("acts", "orange")},
        ),
        lines(
            "Processes started again",
            "In the last half hour, since they had died or hung; and requests that went on in the next engine.",
            "short",
            Query("increase(tailrace_engine_restarts_total{HERE}[30m])", "{{instance}} engine"),
            Query("increase(tailrace_api_restarts_total{HERE}[30m])", "{{instance}} API"),
            Query("increase(tailrace_requests_resumed_total{HERE}[30m])", "{{instance}} requests that went on"),
        ),
    ),
)

_CLIENTS = Row(
    "Clients",
    (
        stack(
            "HTTP answers",
            "Each second, by status; 499: the client went away first.",
            "reqps",
            Query("sum by (status) (rate(tailrace_http_requests_total{HERE}[$__rate_interval]))", "{{status}}"),
        ),
        lines(
            "HTTP requests being answered",
            "On all connections.",
            "short",
            Query("sum by (instance) (tailrace_http_requests_in_flight{HERE})", "{{instance}}"),
        ),
        lines(
            "Unread",
            "Written pieces of streams that wait for clients to take what came before.",
            "bytes",
            Query("sum by (instance) (tailrace_http_buffered_bytes{HERE})", "{{instance}}"),
        ),
        stack(
            "Clients gone early",
            "Each second, by what was going on; stalled: cut off, since they took nothing.",
            "reqps",
            Query("sum by (phase) (rate(tailrace_http_client_disconnects_total{HERE}[$__rate_interval]))", "{{phase}}"),
        ),
    ),
)

_PROCESSES = Row(
    "Processes",
    (
        lines(
            "Memory",
            "Physical memory of each process; what several share, such as weights, counts in each.",
            "bytes",
            Query("tailrace_process_resident_bytes{HERE}", "{{instance}} {{process}}"),
        ),
        lines(
            "Processor",
            "Cores that each process uses.",
            "short",
            Query("rate(tailrace_process_cpu_seconds_total{HERE}[$__rate_interval])", "{{instance}} {{process}}"),
        ),
        lines(
            "Garbage collection",
            "Share of the time in which a collection holds a process up, by the oldest generation visited.",
            "percentunit",
            Query(
                "sum by (instance, generation) (rate(tailrace_gc_pause_seconds_sum{HERE}[$__rate_interval]))",
                "{{instance}} generation {{generation}}",
            ),
        ),
    ),
)

OVERVIEW = Dashboard(
    "overview",
    "Overview",
    "Is it well, what does it do, what does it take.",
    (_NOW, _TRAFFIC, _EVENTS, _CLIENTS, _PROCESSES),
)
