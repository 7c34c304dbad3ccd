"""Every metric the server has: one table, nothing else. Where the values come from is not known here.

Own names start with `tailrace_`. An alias is a series of the same meaning under the name that existing dashboards,
gateways and autoscalers read; it carries the labels `model_name` and `engine` besides.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CATALOG", "Kind", "Metric"]


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. Counters are named here without the `_total` that the exposition adds."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds, ascending, without +Inf
    aliases: tuple[str, ...] = ()


_FIRST_TOKEN_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_TOKEN_GAP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 40)
_REQUEST_S = (0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920)
_STEP_S = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 4)
_STEP_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_REQUEST_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)


REQUESTS_RUNNING = Metric(
    "tailrace_requests_running",
    Kind.GAUGE,
    "requests",
    "Requests in the running set at the last step.",
    aliases=("vllm:num_requests_running",),
)
REQUESTS_WAITING = Metric(
    "tailrace_requests_waiting",
    Kind.GAUGE,
    "requests",
    "Requests queued for the running set at the last step.",
    aliases=("vllm:num_requests_waiting",),
)
KV_BLOCKS = Metric(
    "tailrace_kv_blocks",
    Kind.GAUGE,
    "blocks",
    "KV blocks there are.",
)
KV_BLOCKS_USED = Metric(
    "tailrace_kv_blocks_used",
    Kind.GAUGE,
    "blocks",
    "KV blocks that running requests refer to.",
)
KV_BLOCKS_CACHED = Metric(
    "tailrace_kv_blocks_cached",
    Kind.GAUGE,
    "blocks",
    "KV blocks that are idle, named and reusable.",
)
KV_USAGE = Metric(
    "tailrace_kv_usage_ratio",
    Kind.GAUGE,
    "ratio",
    "Share of the KV blocks that running requests use, 0 to 1.",
    aliases=("vllm:kv_cache_usage_perc",),
)
PROMPT_TOKENS = Metric(
    "tailrace_prompt_tokens",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens of ended requests that were started; each was looked up in the prefix cache.",
    aliases=("vllm:prompt_tokens", "vllm:prefix_cache_queries"),
)
CACHED_TOKENS = Metric(
    "tailrace_prompt_tokens_cached",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens that the prefix cache answered.",
    aliases=("vllm:prefix_cache_hits",),
)
GENERATION_TOKENS = Metric(
    "tailrace_generation_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens sampled.",
    aliases=("vllm:generation_tokens",),
)
COMPUTED_TOKENS = Metric(
    "tailrace_computed_tokens",
    Kind.COUNTER,
    "tokens",
    "Tokens put through the model, by what they belong to: prompt or output.",
    labels=("part",),
)
PREEMPTIONS = Metric(
    "tailrace_preemptions",
    Kind.COUNTER,
    "requests",
    "Running requests sent back to the queue for want of blocks.",
    aliases=("vllm:num_preemptions",),
)
REQUESTS_FINISHED = Metric(
    "tailrace_requests_finished",
    Kind.COUNTER,
    "requests",
    "Ended requests by reason: stop, length, abort (the client went away or cancelled), error.",
    labels=("finished_reason",),
    aliases=("vllm:request_success",),
)
REQUESTS_ABORTED = Metric(
    "tailrace_requests_aborted",
    Kind.COUNTER,
    "requests",
    "Ended requests whose client went away or cancelled; also counted in tailrace_requests_finished.",
)
QUEUE_SECONDS = Metric(
    "tailrace_request_queue_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the first step.",
    buckets=_REQUEST_S,
    aliases=("vllm:request_queue_time_seconds",),
)
FIRST_TOKEN_SECONDS = Metric(
    "tailrace_time_to_first_token_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the first token.",
    buckets=_FIRST_TOKEN_S,
    aliases=("vllm:time_to_first_token_seconds",),
)
PREFILL_SECONDS = Metric(
    "tailrace_request_prefill_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the first step to the first token.",
    buckets=_REQUEST_S,
    aliases=("vllm:request_prefill_time_seconds",),
)
DECODE_SECONDS = Metric(
    "tailrace_request_decode_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the first token to the end.",
    buckets=_REQUEST_S,
    aliases=("vllm:request_decode_time_seconds",),
)
TIME_PER_TOKEN_SECONDS = Metric(
    "tailrace_request_time_per_output_token_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Mean gap of a request's tokens: from the first token to the end, over the tokens after the first.",
    buckets=_TOKEN_GAP_S,
    aliases=("vllm:request_time_per_output_token_seconds",),
)
REQUEST_SECONDS = Metric(
    "tailrace_request_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the end.",
    buckets=_REQUEST_S,
    aliases=("vllm:e2e_request_latency_seconds",),
)
REQUEST_PROMPT_TOKENS = Metric(
    "tailrace_request_prompt_tokens",
    Kind.HISTOGRAM,
    "tokens",
    "Prompt length of ended requests.",
    buckets=_REQUEST_TOKENS,
    aliases=("vllm:request_prompt_tokens",),
)
REQUEST_GENERATION_TOKENS = Metric(
    "tailrace_request_generation_tokens",
    Kind.HISTOGRAM,
    "tokens",
    "Output length of ended requests.",
    buckets=_REQUEST_TOKENS,
    aliases=("vllm:request_generation_tokens",),
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
TOKEN_GAP_SECONDS = Metric(
    "tailrace_inter_token_latency_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Gap between two successive pieces of one choice, each of one token or more, at the front end.",
    buckets=_TOKEN_GAP_S,
    aliases=("vllm:inter_token_latency_seconds",),
)
HTTP_FIRST_TEXT_SECONDS = Metric(
    "tailrace_http_first_text_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the arrival of an HTTP request to the first tokens of its answer; an echoed prompt does not count.",
    buckets=_FIRST_TOKEN_S,
)
HTTP_REQUESTS = Metric(
    "tailrace_http_requests",
    Kind.COUNTER,
    "requests",
    "HTTP requests answered, by route and status; 499: the client went away first.",
    labels=("route", "status"),
)
HTTP_IN_FLIGHT = Metric(
    "tailrace_http_requests_in_flight",
    Kind.GAUGE,
    "requests",
    "HTTP requests that are being answered.",
)
CLIENT_DISCONNECTS = Metric(
    "tailrace_http_client_disconnects",
    Kind.COUNTER,
    "requests",
    "Clients that went away early: while sending the body, waiting for the first text, or reading the answer.",
    labels=("phase",),
)
BUILD_INFO = Metric(
    "tailrace_build_info",
    Kind.GAUGE,
    "",
    "Always 1; the labels say what is running.",
    labels=("version", "model_name"),
)

CATALOG: tuple[Metric, ...] = (
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
    KV_BLOCKS,
    KV_BLOCKS_USED,
    KV_BLOCKS_CACHED,
    KV_USAGE,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    GENERATION_TOKENS,
    COMPUTED_TOKENS,
    PREEMPTIONS,
    REQUESTS_FINISHED,
    REQUESTS_ABORTED,
    QUEUE_SECONDS,
    FIRST_TOKEN_SECONDS,
    PREFILL_SECONDS,
    DECODE_SECONDS,
    TIME_PER_TOKEN_SECONDS,
    REQUEST_SECONDS,
    REQUEST_PROMPT_TOKENS,
    REQUEST_GENERATION_TOKENS,
    STEP_TOKENS,
    STEP_SECONDS,
    STEP_PART_SECONDS,
    EXPERT_TOKENS,
    EXPERT_IMBALANCE,
    TOKEN_GAP_SECONDS,
    HTTP_FIRST_TEXT_SECONDS,
    HTTP_REQUESTS,
    HTTP_IN_FLIGHT,
    CLIENT_DISCONNECTS,
    BUILD_INFO,
)
"""In the order of the exposition."""
