"""The usage that completions report, whole or in chunks."""

from msgspec import Struct

from tailrace.service.api import Usage

__all__ = ["WireUsage", "wire_usage"]


class PromptDetails(Struct):
    """Besides what OpenAI's has: the tokens by the level they came from, and why there were no more."""

    cached_tokens: int
    cached_tokens_details: dict[str, int]
    cache_miss_reason: str | None


class CompletionDetails(Struct):
    reasoning_tokens: int


class WireUsage(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails
    prompt_cache_hit_tokens: int
    prompt_cache_miss_tokens: int


def wire_usage(usage: Usage) -> WireUsage:
    return WireUsage(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        PromptDetails(usage.cached_tokens, dict(usage.found), usage.miss_reason),
        CompletionDetails(usage.reasoning_tokens),
        usage.cached_tokens,
        usage.prompt_tokens - usage.cached_tokens,
    )
