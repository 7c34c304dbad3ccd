"""What the cache says of a prompt, as sentences for people."""

from tailrace.types import Explanation, MissReason, PrefixReport

__all__ = ["explained"]

_WHY = {
    MissReason.NEVER_SEEN: "was never part of a whole block, or too long ago to be remembered",
    MissReason.EVICTED: "was evicted, to make room for other requests",
    MissReason.EXPIRED: "was dropped, because nobody used it for its time to live",
    MissReason.RELEASED: "was idle for long while nobody needed the room, and its memory was given back",
    MissReason.INVALIDATED: "was invalidated",
    MissReason.OTHER_SALT: "was computed for another tenant only (another cache_salt or user_id)",
    MissReason.OTHER_FINGERPRINT: "was computed with other weights or another KV format only",
    MissReason.SHORTER_THAN_BLOCK: "belongs to what whole blocks leave of the prompt: without its last token, which is "
    "always computed, less than a block of {block_tokens} tokens. Of that, only rows are found that another kept block "
    "begins with, and none has this one",
    MissReason.LEVEL_DOWN: "may lie on a level that does not answer",
    MissReason.LEVEL_BYPASSED: "may lie on a level that requests do not wait for at present, by a rule of the operator",
    MissReason.SLOWER_THAN_RECOMPUTE: "lies on a level, but computing it takes less time than reading it",
}


def explained(explanation: Explanation) -> str:
    prefix = explanation.prefix
    total = explanation.num_prompt_tokens
    found = f"{prefix.num_cached_tokens:,} of {total:,} prompt tokens are cached{_by_level(prefix)}."
    if prefix.reason is None:
        return f"{found} Nothing is missing but the last token, which is always computed."
    why = _WHY[prefix.reason].format(block_tokens=explanation.block_tokens)
    return f"{found} What comes at position {prefix.num_cached_tokens:,} {why}{_when(prefix)}."


def _by_level(prefix: PrefixReport) -> str:
    parts = ", ".join(f"{level}: {count:,}" for level, count in prefix.num_tokens)
    return f" ({parts})" if parts else ""


def _when(prefix: PrefixReport) -> str:
    when = "" if prefix.removed_s_ago is None else f", {prefix.removed_s_ago:,.1f} s ago"
    return when if prefix.removed_by is None else f"{when}, by request {prefix.removed_by}"
