"""A message as the wire has it: its usage, why it stopped, and all of it in one piece."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from tailrace.frontends.http.answer import AnswerHead
from tailrace.frontends.http.anthropic.blocks import Block
from tailrace.service.api import Usage
from tailrace.types import FinishReason

__all__ = ["Message", "StopReason", "WireUsage", "stop_of", "usage_of"]

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]

_TIERS = {"priority": "priority", "default": "standard", "flex": "batch"}  # the API has its own words


class OutputDetails(Struct):
    thinking_tokens: int


class WireUsage(Struct):
    """The tokens of a prompt are those that were found in the cache, and the others."""

    input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: OutputDetails
    cache_creation_input_tokens: int = 0  # computing is what fills the cache: it is no work of its own
    service_tier: str | UnsetType = UNSET


class Message(Struct, tag_field="type", tag="message"):
    id: str
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: WireUsage
    role: str = "assistant"


def usage_of(usage: Usage, head: AnswerHead) -> WireUsage:
    tier = UNSET if head.service_tier is None else _TIERS.get(head.service_tier, head.service_tier)
    num_computed = usage.prompt_tokens - usage.cached_tokens
    thinking = OutputDetails(usage.reasoning_tokens)
    return WireUsage(num_computed, usage.cached_tokens, usage.completion_tokens, thinking, 0, tier)


def stop_of(
    finish_reason: FinishReason, stop_reason: str | int | None, usage: Usage, max_tokens: int
) -> tuple[StopReason, str | None]:
    """Why it stopped, and the stop sequence that it stopped at."""
    if finish_reason is FinishReason.LENGTH:
        return "max_tokens" if usage.completion_tokens >= max_tokens else "model_context_window_exceeded", None
    if finish_reason is FinishReason.TOOL_CALLS:
        return "tool_use", None
    return ("stop_sequence", stop_reason) if isinstance(stop_reason, str) else ("end_turn", None)
