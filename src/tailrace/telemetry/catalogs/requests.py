"""Metrics of requests as the engine sees them; part of the catalog."""

from tailrace.telemetry import buckets
from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "DECODE_SECONDS",
    "FIRST_TOKEN_PREDICTION_ERROR",
    "FIRST_TOKEN_SECONDS",
    "INFERENCE_SECONDS",
    "PREEMPTIONS",
    "PREFILL_SECONDS",
    "QUEUE_SECONDS",
    "REQUESTS_ABORTED",
    "REQUESTS_ADMITTED",
    "REQUESTS_DEFERRED",
    "REQUESTS_FINISHED",
    "REQUESTS_RUNNING",
    "REQUESTS_WAITING",
    "REQUEST_CATALOG",
    "REQUEST_COMPUTED_TOKENS",
    "REQUEST_GENERATION_TOKENS",
    "REQUEST_MAX_TOKENS",
    "REQUEST_PROMPT_TOKENS",
    "REQUEST_SECONDS",
    "TIME_PER_TOKEN_SECONDS",
    "WARMUPS",
    "WARMUP_TOKENS",
]

_ERROR_RATIO = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 10)

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
REQUESTS_DEFERRED = Metric(
    "tailrace_requests_deferred",
    Kind.GAUGE,
    "requests",
    "Of the waiting requests, those that wait for a prefix: for who computes it, or for a level below the engine.",
)
REQUESTS_ADMITTED = Metric(
    "tailrace_requests_admitted",
    Kind.COUNTER,
    "requests",
    "Requests that were let into the running set, counted once, at their first token or their end without one. Who was "
    "not is in tailrace_requests_refused, by reason.",
    labels=("class",),
)
REQUESTS_FINISHED = Metric(
    "tailrace_requests_finished",
    Kind.COUNTER,
    "requests",
    "Ended requests by reason: stop, length, abort (the client went away or cancelled), error. Not who was refused.",
    labels=("class", "finished_reason"),
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
    labels=("class",),
    buckets=buckets.REQUEST_S,
    aliases=("vllm:request_queue_time_seconds",),
)
FIRST_TOKEN_SECONDS = Metric(
    "tailrace_time_to_first_token_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the first token.",
    labels=("class",),
    buckets=buckets.FIRST_TOKEN_S,
    aliases=("vllm:time_to_first_token_seconds",),
)
FIRST_TOKEN_PREDICTION_ERROR = Metric(
    "tailrace_time_to_first_token_prediction_error_ratio",
    Kind.HISTOGRAM,
    "ratio",
    "How far the time to the first token was from what was predicted at the arrival, in parts of that time.",
    buckets=_ERROR_RATIO,
)
PREFILL_SECONDS = Metric(
    "tailrace_request_prefill_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the first step to the first token.",
    labels=("class",),
    buckets=buckets.REQUEST_S,
    aliases=("vllm:request_prefill_time_seconds",),
)
DECODE_SECONDS = Metric(
    "tailrace_request_decode_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the first token to the end.",
    labels=("class",),
    buckets=buckets.REQUEST_S,
    aliases=("vllm:request_decode_time_seconds",),
)
INFERENCE_SECONDS = Metric(
    "tailrace_request_inference_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From the first step to the end.",
    labels=("class",),
    buckets=buckets.REQUEST_S,
    aliases=("vllm:request_inference_time_seconds",),
)
TIME_PER_TOKEN_SECONDS = Metric(
    "tailrace_request_time_per_output_token_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Mean gap of a request's tokens: from the first token to the end, over the tokens after the first.",
    labels=("class",),
    buckets=buckets.TOKEN_GAP_S,
    aliases=("vllm:request_time_per_output_token_seconds",),
)
REQUEST_SECONDS = Metric(
    "tailrace_request_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the end.",
    labels=("class",),
    buckets=buckets.REQUEST_S,
    aliases=("vllm:e2e_request_latency_seconds",),
)
REQUEST_PROMPT_TOKENS = Metric(
    "tailrace_request_prompt_tokens",
    Kind.HISTOGRAM,
    "tokens",
    "Prompt length of ended requests.",
    labels=("class",),
    buckets=buckets.REQUEST_TOKENS,
    aliases=("vllm:request_prompt_tokens",),
)
REQUEST_COMPUTED_TOKENS = Metric(
    "tailrace_request_prompt_tokens_computed",
    Kind.HISTOGRAM,
    "tokens",
    "Prompt tokens that the prefix cache did not answer, of each admitted request.",
    labels=("class",),
    buckets=buckets.REQUEST_TOKENS,
    aliases=("vllm:request_prefill_kv_computed_tokens",),
)
REQUEST_MAX_TOKENS = Metric(
    "tailrace_request_max_tokens",
    Kind.HISTOGRAM,
    "tokens",
    "Output tokens that ended requests were allowed, by the client or the context.",
    labels=("class",),
    buckets=buckets.REQUEST_TOKENS,
    aliases=("vllm:request_params_max_tokens", "vllm:request_max_num_generation_tokens"),
)
REQUEST_GENERATION_TOKENS = Metric(
    "tailrace_request_generation_tokens",
    Kind.HISTOGRAM,
    "tokens",
    "Output length of ended requests.",
    labels=("class",),
    buckets=buckets.REQUEST_TOKENS,
    aliases=("vllm:request_generation_tokens",),
)
PREEMPTIONS = Metric(
    "tailrace_preemptions",
    Kind.COUNTER,
    "requests",
    "Running requests sent back to the queue: those of all classes and causes in tailrace_requests_preempted.",
    aliases=("vllm:num_preemptions",),
)
WARMUPS = Metric(
    "tailrace_warmups",
    Kind.COUNTER,
    "requests",
    "Pieces of prompts that the server computed ahead, which no other figure of requests counts: computed, gave_way "
    "(to a user's request; tried again later) or failed.",
    labels=("outcome",),
)
WARMUP_TOKENS = Metric(
    "tailrace_warmup_tokens",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens computed ahead; those that were cached already are not counted.",
)

REQUEST_CATALOG = (
    REQUESTS_RUNNING,
    REQUESTS_WAITING,
    REQUESTS_DEFERRED,
    REQUESTS_ADMITTED,
    REQUESTS_FINISHED,
    REQUESTS_ABORTED,
    QUEUE_SECONDS,
    FIRST_TOKEN_SECONDS,
    FIRST_TOKEN_PREDICTION_ERROR,
    PREFILL_SECONDS,
    DECODE_SECONDS,
    INFERENCE_SECONDS,
    TIME_PER_TOKEN_SECONDS,
    REQUEST_SECONDS,
    REQUEST_PROMPT_TOKENS,
    REQUEST_COMPUTED_TOKENS,
    REQUEST_GENERATION_TOKENS,
    REQUEST_MAX_TOKENS,
    PREEMPTIONS,
    WARMUPS,
    WARMUP_TOKENS,
)
