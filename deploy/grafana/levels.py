"""Where keys and values are, what each level of the cache gives, and what was missing why."""

from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panels import Query, cells, lines, stack, states

__all__ = ["LEVELS"]

_LEVEL = "{{instance}} {{level}}"
_CELL = "5m"


def _level_rate(metric: str) -> Query:
    return Query(f"sum by (instance, level) (rate({metric}{{HERE}}[$__rate_interval]))", _LEVEL)


_HITS = Row(
    "Hits",
    (
        cells(
            "Cache hit rate in cells of five minutes",
            "Of the prompt tokens of requests that ended in these five minutes, the share that a level gave, and that "
            "all levels together gave. Red 0%, green 100%.",
            Query(
                f"sum by (instance, level) (increase(tailrace_prompt_tokens_found_total{{HERE}}[{_CELL}]))"
                " / on (instance) group_left"
                f" sum by (instance) (increase(tailrace_prompt_tokens_total{{HERE}}[{_CELL}]))",
                _LEVEL,
            ),
            Query(
                f"sum by (instance) (increase(tailrace_prompt_tokens_cached_total{{HERE}}[{_CELL}]))"
                f" / sum by (instance) (increase(tailrace_prompt_tokens_total{{HERE}}[{_CELL}]))",
                "{{instance}} all",
            ),
            cell=_CELL,
        ),
        stack(
            "Prompt tokens given, by level",
            "A second.",
            "short",
            Query("sum by (level) (rate(tailrace_prompt_tokens_found_total{HERE}[$__rate_interval]))", "{{level}}"),
        ),
        stack(
            "Prompt tokens missed, by reason",
            "A second, by why the first block that was missing was missing.",
            "short",
            Query("sum by (reason) (rate(tailrace_prompt_tokens_missed_total{HERE}[$__rate_interval]))", "{{reason}}"),
        ),
        stack(
            "Requests that missed, by reason",
            "A second.",
            "reqps",
            Query("sum by (reason) (rate(tailrace_prefix_misses_total{HERE}[$__rate_interval]))", "{{reason}}"),
        ),
    ),
)

_ENGINE = Row(
    "In the engine",
    (
        stack(
            "Blocks by state",
            "released: without memory; free; reserved; filling; sealed: in use; idle: named and reusable.",
            "short",
            Query("sum by (state) (tailrace_kv_blocks_in_state{HERE})", "{{state}}"),
        ),
        lines(
            "Blocks in use",
            "Share of the KV blocks that running requests use.",
            "percentunit",
            Query("tailrace_kv_usage_ratio{HERE}", "{{instance}}"),
            most=1,
        ),
        stack(
            "Blocks that lost their name",
            "A second. evicted: room was needed; expired; released: long idle; invalidated.",
            "short",
            Query("sum by (cause) (rate(tailrace_kv_blocks_removed_total{HERE}[$__rate_interval]))", "{{cause}}"),
        ),
        lines(
            "Fragmentation",
            "Of the blocks of chunks that hold something, the share that is free.",
            "percentunit",
            Query("tailrace_kv_chunk_fragmentation_ratio{HERE}", "{{instance}}"),
        ),
        lines(
            "Chunks",
            "With memory; with some blocks in use and some free; free in a row.",
            "short",
            Query("sum(tailrace_kv_chunks_committed{HERE})", "with memory"),
            Query("sum(tailrace_kv_chunks_partial{HERE})", "partly filled"),
            Query("sum(tailrace_kv_longest_free_chunks{HERE})", "free in a row"),
        ),
        lines(
            "Memory",
            "Physical memory under the KV pool, as the system counts it.",
            "bytes",
            Query("tailrace_kv_resident_bytes{HERE}", "{{instance}}"),
        ),
        lines(
            "Blocks moved",
            "A second, to bring others together.",
            "short",
            Query("sum by (instance) (rate(tailrace_kv_blocks_moved_total{HERE}[$__rate_interval]))", "{{instance}}"),
        ),
    ),
)

_BELOW = Row(
    "Levels below",
    (
        states(
            "Are they read and written?",
            "A level that is down costs misses and no request; the server's log says why it is.",
            Query("tailrace_level_up{HERE}", _LEVEL),
            {0: ("down", "red"), 1: ("up", "green")},
        ),
        lines(
            "Filled",
            "Bytes that blocks take, over what the level may take. Of redis all memory that the server uses.",
            "percentunit",
            Query("tailrace_level_bytes{HERE} / (tailrace_level_max_bytes{HERE} > 0)", _LEVEL),
        ),
        lines("Blocks", "Held now.", "short", Query("tailrace_level_blocks{HERE}", _LEVEL)),
        lines(
            "Blocks fetched and saved",
            "A second.",
            "short",
            Query(
                "sum by (level) (rate(tailrace_level_fetched_blocks_total{HERE}[$__rate_interval]))", "{{level}} got"
            ),
            Query(
                "sum by (level) (rate(tailrace_level_saved_blocks_total{HERE}[$__rate_interval]))", "{{level}} saved"
            ),
        ),
        lines(
            "Time to fetch a block",
            "Waiting included.",
            "s",
            Query(
                "sum by (instance, level) (rate(tailrace_level_fetch_seconds_total{HERE}[$__rate_interval]))"
                " / sum by (instance, level) (rate(tailrace_level_fetched_blocks_total{HERE}[$__rate_interval]))",
                _LEVEL,
            ),
        ),
        lines("Blocks evicted", "A second.", "short", _level_rate("tailrace_level_evicted_blocks_total")),
        lines(
            "Blocks not saved",
            "A second: the level was slow, full or down.",
            "short",
            _level_rate("tailrace_level_dropped_blocks_total"),
        ),
        lines(
            "Failed calls and damaged blocks",
            "A second. Each costs a miss, none an error.",
            "short",
            Query("sum by (level) (rate(tailrace_level_failures_total{HERE}[$__rate_interval]))", "{{level}} failed"),
            Query(
                "sum by (level) (rate(tailrace_level_corrupt_blocks_total{HERE}[$__rate_interval]))",
                "{{level}} damaged",
            ),
        ),
        lines(
            "To be forgotten",
            "What was invalidated and a level has not forgotten yet.",
            "short",
            Query("tailrace_level_forgets_pending{HERE}", _LEVEL),
        ),
    ),
)

LEVELS = Dashboard(
    "levels",
    "KV levels",
    "Where keys and values are, what each level of the cache gives, and what was missing why.",
    (_HITS, _ENGINE, _BELOW),
)
