"""What every answer has, whole or in chunks: its head, its usage, and the end of its choices."""

from dataclasses import dataclass

from msgspec import Struct

from tailrace.errors import EngineError, UnavailableError
from tailrace.service.api import ChoiceDelta, Usage
from tailrace.types import FinishReason

__all__ = ["AnswerHead", "WireUsage", "check_end", "wire_usage"]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    answer_id: str
    created_s: int
    model: str
    fingerprint: str


class CachedTokens(Struct):
    cached_tokens: int


class WireUsage(Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    prompt_cache_hit_tokens: int
    prompt_cache_miss_tokens: int


def wire_usage(usage: Usage) -> WireUsage:
    return WireUsage(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        CachedTokens(usage.cached_tokens),
        usage.cached_tokens,
        usage.prompt_tokens - usage.cached_tokens,
    )


def check_end(delta: ChoiceDelta) -> None:
    """Raises when a choice ended otherwise than by the model or its limits: such an answer is not whole."""
    if delta.finish_reason is FinishReason.ERROR:
        raise EngineError(delta.error or "the engine gave no reason")
    if delta.finish_reason is FinishReason.ABORT:
        raise UnavailableError("the server ended this request before its answer was whole; send it again")
