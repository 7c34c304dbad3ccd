"""Metrics of the levels below the engine; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "LEVEL_BLOCKS",
    "LEVEL_BYTES",
    "LEVEL_CATALOG",
    "LEVEL_CORRUPT",
    "LEVEL_DROPPED",
    "LEVEL_EVICTED",
    "LEVEL_FAILURES",
    "LEVEL_FETCHED",
    "LEVEL_FETCH_SECONDS",
    "LEVEL_FORGETS_PENDING",
    "LEVEL_MAX_BYTES",
    "LEVEL_SAVED",
    "LEVEL_UP",
]

LEVEL_UP = Metric(
    "tailrace_level_up",
    Kind.GAUGE,
    "levels",
    "1: a level below the engine is read and written; 0: it is not, as the log says, or is at one thing for too long.",
    labels=("level",),
)
LEVEL_BLOCKS = Metric(
    "tailrace_level_blocks",
    Kind.GAUGE,
    "blocks",
    "Blocks that a level below the engine holds; of redis all keys of the server, its own count, whoever uses them.",
    labels=("level",),
)
LEVEL_BYTES = Metric(
    "tailrace_level_bytes",
    Kind.GAUGE,
    "bytes",
    "Bytes that these blocks take, of redis all memory that the server uses; 0 where the level cannot tell.",
    labels=("level",),
)
LEVEL_MAX_BYTES = Metric(
    "tailrace_level_max_bytes",
    Kind.GAUGE,
    "bytes",
    "Bytes that a level may take.",
    labels=("level",),
)
LEVEL_EVICTED = Metric(
    "tailrace_level_evicted_blocks",
    Kind.COUNTER,
    "blocks",
    "Blocks that went from a level for others, as far as this server did it.",
    labels=("level",),
)
LEVEL_CORRUPT = Metric(
    "tailrace_level_corrupt_blocks",
    Kind.COUNTER,
    "blocks",
    "Blocks of a level that failed their checksum and were dropped.",
    labels=("level",),
)
LEVEL_FETCHED = Metric(
    "tailrace_level_fetched_blocks",
    Kind.COUNTER,
    "blocks",
    "Blocks that the engine got from a level.",
    labels=("level",),
)
LEVEL_FETCH_SECONDS = Metric(
    "tailrace_level_fetch_seconds",
    Kind.COUNTER,
    "seconds",
    "Time that fetching these blocks took, waiting included.",
    labels=("level",),
)
LEVEL_SAVED = Metric(
    "tailrace_level_saved_blocks",
    Kind.COUNTER,
    "blocks",
    "Blocks that were written to a level, or were there already.",
    labels=("level",),
)
LEVEL_DROPPED = Metric(
    "tailrace_level_dropped_blocks",
    Kind.COUNTER,
    "blocks",
    "Blocks that were to be written to a level and were not: it was slow, full or down.",
    labels=("level",),
)
LEVEL_FAILURES = Metric(
    "tailrace_level_failures",
    Kind.COUNTER,
    "calls",
    "Calls that a level failed. Each costs a miss, none an error.",
    labels=("level",),
)
LEVEL_FORGETS_PENDING = Metric(
    "tailrace_level_forgets_pending",
    Kind.GAUGE,
    "forgets",
    "What was invalidated and a level has not forgotten yet; 0: it gives out nothing of it any more.",
    labels=("level",),
)

LEVEL_CATALOG = (
    LEVEL_UP,
    LEVEL_BLOCKS,
    LEVEL_BYTES,
    LEVEL_MAX_BYTES,
    LEVEL_EVICTED,
    LEVEL_CORRUPT,
    LEVEL_FETCHED,
    LEVEL_FETCH_SECONDS,
    LEVEL_SAVED,
    LEVEL_DROPPED,
    LEVEL_FAILURES,
    LEVEL_FORGETS_PENDING,
)
