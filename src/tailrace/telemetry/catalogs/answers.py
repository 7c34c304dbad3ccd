"""Metrics of answers as their readers see them, whichever front end they leave by; part of the catalog."""

from tailrace.telemetry import buckets
from tailrace.telemetry.metric import Kind, Metric

__all__ = ["ANSWER_CATALOG", "COALESCED_TOKENS", "FIRST_TEXT_SECONDS", "TOKEN_GAP_SECONDS"]


TOKEN_GAP_SECONDS = Metric(
    "tailrace_inter_token_latency_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Gap between two successive pieces of one choice, each of one token or more, at any front end.",
    labels=("class",),
    buckets=buckets.TOKEN_GAP_S,
    aliases=("vllm:inter_token_latency_seconds",),
)
FIRST_TEXT_SECONDS = Metric(
    "tailrace_first_text_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the arrival of a request to the first tokens of its answer, by front end: http, grpc, shm. "
    "An echoed prompt does not count.",
    labels=("front_end", "class"),
    buckets=buckets.FIRST_TOKEN_S,
)
COALESCED_TOKENS = Metric(
    "tailrace_coalesced_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens of answers that left in one piece with a token before them, since the client or the server was not ready.",
    labels=("front_end",),
)

ANSWER_CATALOG = (TOKEN_GAP_SECONDS, FIRST_TEXT_SECONDS, COALESCED_TOKENS)
