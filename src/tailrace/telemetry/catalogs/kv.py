"""Metrics of the prefix cache and of the memory under it; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "CACHED_TOKENS",
    "FOUND_TOKENS",
    "KV_BLOCKS",
    "KV_BLOCKS_BY_STATE",
    "KV_BLOCKS_CACHED",
    "KV_BLOCKS_MOVED",
    "KV_BLOCKS_REMOVED",
    "KV_BLOCKS_USED",
    "KV_CATALOG",
    "KV_CHUNKS_COMMITTED",
    "KV_CHUNKS_PARTIAL",
    "KV_CHUNK_FRAGMENTATION",
    "KV_CONFIG",
    "KV_LONGEST_FREE_CHUNKS",
    "KV_RESIDENT_BYTES",
    "KV_USAGE",
    "MISSED_TOKENS",
    "PREFIX_MISSES",
    "PROMPT_TOKENS",
]

PROMPT_TOKENS = Metric(
    "tailrace_prompt_tokens",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens of admitted requests, counted with their first token; each was looked up in the prefix cache.",
    aliases=("vllm:prompt_tokens", "vllm:prefix_cache_queries"),
)
CACHED_TOKENS = Metric(
    "tailrace_prompt_tokens_cached",
    Kind.COUNTER,
    "tokens",
    "Prompt tokens that the prefix cache answered.",
    aliases=("vllm:prompt_tokens_cached",),
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
    "Prompt tokens that the prefix cache did not answer, by why the first of them was missing; not the last one of a "
    "prompt that is cached as a whole, which is always computed.",
    labels=("reason",),
)
KV_CONFIG = Metric(
    "tailrace_kv_config_info",
    Kind.GAUGE,
    "",
    "Always 1; the labels say of how many tokens a KV block is, and how many blocks there are.",
    labels=("block_tokens", "num_blocks"),
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

KV_CATALOG = (
    PROMPT_TOKENS,
    CACHED_TOKENS,
    FOUND_TOKENS,
    PREFIX_MISSES,
    MISSED_TOKENS,
    KV_CONFIG,
    KV_BLOCKS,
    KV_BLOCKS_USED,
    KV_BLOCKS_CACHED,
    KV_USAGE,
    KV_BLOCKS_BY_STATE,
    KV_BLOCKS_REMOVED,
    KV_CHUNKS_COMMITTED,
    KV_CHUNKS_PARTIAL,
    KV_CHUNK_FRAGMENTATION,
    KV_LONGEST_FREE_CHUNKS,
    KV_BLOCKS_MOVED,
    KV_RESIDENT_BYTES,
)
