"""Every metric the server has: one table, nothing else. Where the values come from is not known here.

Own names start with `tailrace_`. An alias is a series of the same meaning under the name that existing dashboards,
gateways and autoscalers read; it carries the labels `model_name` and `engine` besides, and never `class`: there it is
the sum over the service classes.
"""

from tailrace.telemetry.answer_catalog import ANSWER_CATALOG
from tailrace.telemetry.class_catalog import CLASS_CATALOG
from tailrace.telemetry.engine_time_catalog import ENGINE_TIME_CATALOG
from tailrace.telemetry.grpc_catalog import GRPC_CATALOG
from tailrace.telemetry.level_catalog import LEVEL_CATALOG
from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.residency_catalog import RESIDENCY_CATALOG
from tailrace.telemetry.rule_catalog import RULE_CATALOG
from tailrace.telemetry.shm_catalog import SHM_CATALOG

__all__ = ["CATALOG", "Kind", "Metric"]


_FIRST_TOKEN_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_TOKEN_GAP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10, 40)
_ERROR_RATIO = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 10)
_REQUEST_S = (0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920)
_STEP_S = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 4)
_STEP_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_GC_PAUSE_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
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
KV_BLOCKS_BY_STATE = Metric(
    "tailrace_kv_blocks_in_state",
    Kind.GAUGE,
    "blocks",
    "KV blocks by state: released (no memory), free, reserved, filling, sealed (in use), idle (named and reusable).",
    labels=("state",),
)
KV_BLOCKS_REMOVED = Metric(
    "tailrace_kv_blocks_removed",
    Kind.COUNTER,
    "blocks",
    "KV blocks that lost their name: evicted (room was needed), expired, released (long idle), invalidated.",
    labels=("cause",),
)
KV_CHUNKS_COMMITTED = Metric(
    "tailrace_kv_chunks_committed",
    Kind.GAUGE,
    "chunks",
    "Chunks of KV blocks that have memory.",
)
KV_CHUNKS_PARTIAL = Metric(
    "tailrace_kv_chunks_partial",
    Kind.GAUGE,
    "chunks",
    "Chunks of KV blocks of which some blocks are in use or cached, and some are free.",
)
KV_CHUNK_FRAGMENTATION = Metric(
    "tailrace_kv_chunk_fragmentation_ratio",
    Kind.GAUGE,
    "ratio",
    "Of the blocks of chunks that hold something, the share that is free, 0 to 1.",
)
KV_LONGEST_FREE_CHUNKS = Metric(
    "tailrace_kv_longest_free_chunks",
    Kind.GAUGE,
    "chunks",
    "Free chunks of KV blocks in a row, at the last sweep.",
)
KV_BLOCKS_MOVED = Metric(
    "tailrace_kv_blocks_moved",
    Kind.COUNTER,
    "blocks",
    "KV blocks that were moved to bring others together.",
)
KV_RESIDENT_BYTES = Metric(
    "tailrace_kv_resident_bytes",
    Kind.GAUGE,
    "bytes",
    "Physical memory under the KV pool, as the system counts it.",
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
FOUND_TOKENS = Metric(
    "tailrace_prompt_tokens_found",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens that the prefix cache answered, by the level they came from: engine, host, disk, redis.",
    labels=("level",),
)
PREFIX_MISSES = Metric(
    "tailrace_prefix_misses",
    Kind.COUNTER,
    "requests",
    "Started requests that had to compute part of their prompt, by why its first missing block was missing.",
    labels=("reason",),
)
MISSED_TOKENS = Metric(
    "tailrace_prompt_tokens_missed",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens that the prefix cache did not answer, by why the first of them was missing.",
    labels=("reason",),
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
    "Running requests sent back to the queue: those of all classes and causes in tailrace_requests_preempted.",
    aliases=("vllm:num_preemptions",),
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
QUEUE_SECONDS = Metric(
    "tailrace_request_queue_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the first step.",
    labels=("class",),
    buckets=_REQUEST_S,
    aliases=("vllm:request_queue_time_seconds",),
)
FIRST_TOKEN_SECONDS = Metric(
    "tailrace_time_to_first_token_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "From arrival at the engine to the first token.",
    labels=("class",),
    buckets=_FIRST_TOKEN_S,
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
    labels=("class",),
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
    "Clients that went away early: while sending the body, waiting for the first text, being answered, or leaving a "
    "written piece untaken; stalled: those that the server cut off, since they took nothing for --stall-timeout.",
    labels=("phase",),
)
BUFFERED_BYTES = Metric(
    "tailrace_http_buffered_bytes",
    Kind.GAUGE,
    "bytes",
    "Written pieces of event streams that wait for clients to take what came before.",
)
GC_PAUSE_SECONDS = Metric(
    "tailrace_gc_pause_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Time for which the garbage collector held up the whole process, by the oldest generation that it visited.",
    labels=("generation",),
    buckets=_GC_PAUSE_S,
)
PROCESS_RESIDENT_BYTES = Metric(
    "tailrace_process_resident_bytes",
    Kind.GAUGE,
    "bytes",
    "Physical memory of each process of the server; what several share, such as weights, counts in each.",
    labels=("process",),
)
PROCESS_CPU_SECONDS = Metric(
    "tailrace_process_cpu_seconds",
    Kind.COUNTER,
    "seconds",
    "Processor time that each process of the server has taken.",
    labels=("process",),
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
    KV_BLOCKS_BY_STATE,
    KV_BLOCKS_REMOVED,
    KV_CHUNKS_COMMITTED,
    KV_CHUNKS_PARTIAL,
    KV_CHUNK_FRAGMENTATION,
    KV_LONGEST_FREE_CHUNKS,
    KV_BLOCKS_MOVED,
    KV_RESIDENT_BYTES,
    KV_USAGE,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    FOUND_TOKENS,
    PREFIX_MISSES,
    MISSED_TOKENS,
    GENERATION_TOKENS,
    COMPUTED_TOKENS,
    PREEMPTIONS,
    REQUESTS_FINISHED,
    REQUESTS_ABORTED,
    WARMUPS,
    WARMUP_TOKENS,
    QUEUE_SECONDS,
    FIRST_TOKEN_SECONDS,
    FIRST_TOKEN_PREDICTION_ERROR,
    PREFILL_SECONDS,
    DECODE_SECONDS,
    TIME_PER_TOKEN_SECONDS,
    REQUEST_SECONDS,
    REQUEST_PROMPT_TOKENS,
    REQUEST_GENERATION_TOKENS,
    STEP_TOKENS,
    STEP_SECONDS,
    STEP_PART_SECONDS,
    *ENGINE_TIME_CATALOG,
    EXPERT_TOKENS,
    EXPERT_IMBALANCE,
    *CLASS_CATALOG,
    *RESIDENCY_CATALOG,
    *LEVEL_CATALOG,
    *RULE_CATALOG,
    *ANSWER_CATALOG,
    HTTP_REQUESTS,
    HTTP_IN_FLIGHT,
    CLIENT_DISCONNECTS,
    BUFFERED_BYTES,
    *GRPC_CATALOG,
    *SHM_CATALOG,
    GC_PAUSE_SECONDS,
    PROCESS_RESIDENT_BYTES,
    PROCESS_CPU_SECONDS,
    BUILD_INFO,
)
"""In the order of the exposition."""
