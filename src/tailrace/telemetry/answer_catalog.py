"""Metrics of answers as their readers see them, whichever front end they leave by; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["ANSWER_CATALOG", "COALESCED_TOKENS", "FIRST_TEXT_SECONDS", "TOKEN_GAP_SECONDS"]

_FIRST_TEXT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_TOKEN_GAP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 40)

TOKEN_GAP_SECONDS = Metric(
    "tailrace_inter_token_latency_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Gap between two successive pieces of one choice, each of one token or more, at any front end.",
    labels=("class",),
    buckets=_TOKEN_GAP_S,
    aliases=("vllm:inter_token_latency_seconds",),
)
FIRST_TEXT_SECONDS = Metric(
    "tailrace_first_text_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the arrival of a request to the first tokens of its answer, by front end: http, grpc, shm. "
    "An echoed prompt does not count.",
    labels=("front_end",),
    buckets=_FIRST_TEXT_S,
)
COALESCED_TOKENS = Metric(
    "tailrace_coalesced_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens of answers that left in one piece with a token before them, since the client or the server was not ready.",
    labels=("front_end",),
)

ANSWER_CATALOG = (TOKEN_GAP_SECONDS, FIRST_TEXT_SECONDS, COALESCED_TOKENS)
