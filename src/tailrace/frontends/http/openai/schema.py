"""The bodies of completions and of what shares their prompts, as typed structs. Bounds are those of the OpenAI API."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tailrace.frontends.chat import Message
from tailrace.frontends.function_tools import FunctionTool, ToolWish
from tailrace.frontends.http.body import Count, GenerationBody, StopString, TopLogprobs
from tailrace.frontends.output_format import ResponseFormat, StructuredOutputs
from tailrace.frontends.thinking import Effort
from tailrace.frontends.tools import MAX_TOOLS
from tailrace.frontends.values import Salt, TemplateArgs, TokenId

__all__ = [
    "CacheTenant",
    "CachedPrompt",
    "ChatBody",
    "CompletionBody",
    "CompletionsBody",
    "DetokenizeBody",
    "ExplainBody",
    "InvalidateBody",
    "PromptBody",
    "StreamOptions",
    "Thinking",
    "TokenizeBody",
]


class StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class Thinking(Struct, forbid_unknown_fields=True):
    type: Literal["enabled", "disabled"]


Messages = Annotated[list[Message], Meta(min_length=1)]
Tools = Annotated[list[FunctionTool], Meta(max_length=MAX_TOOLS)]


class CompletionsBody(GenerationBody, kw_only=True):
    """What both kinds of completion take."""

    stream_options: StreamOptions | None = None
    n: Count | None = None
    max_tokens: Count | None = None
    stop: StopString | Annotated[list[StopString], Meta(max_length=4)] | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None


class ChatBody(CompletionsBody, kw_only=True):
    messages: Messages
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: TemplateArgs | None = None
    tools: Tools | None = None
    tool_choice: ToolWish | None = None
    parallel_tool_calls: bool | None = None
    thinking: Thinking | bool | None = None
    reasoning_effort: Effort | None = None
    include_reasoning: bool | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None


class CompletionBody(CompletionsBody, kw_only=True):
    prompt: str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1)]
    logprobs: TopLogprobs | bool | None = None  # false: none; true is refused, as it gives no number
    suffix: str | None = None
    echo: bool | None = None
    best_of: Count | None = None
    add_special_tokens: bool | None = None


class PromptBody(Struct, kw_only=True):
    """Messages and how they are rendered, or whatever prompt there is besides."""

    messages: Messages | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: TemplateArgs | None = None
    tools: Tools | None = None
    tool_choice: ToolWish | None = None
    parallel_tool_calls: bool | None = None
    thinking: Thinking | bool | None = None
    reasoning_effort: Effort | None = None


class TokenizeBody(PromptBody, kw_only=True):
    """Either a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Struct, kw_only=True):
    model: str | None = None
    tokens: list[TokenId]


class CachedPrompt(PromptBody, kw_only=True, forbid_unknown_fields=True):
    """A prompt, as text or ids, or token_ids, or messages; with the salt of those whose cache is meant."""

    prompt: str | list[TokenId] | None = None
    token_ids: Annotated[list[TokenId], Meta(min_length=1)] | None = None
    cache_salt: Salt | None = None
    user_id: Salt | None = None


class CacheTenant(Struct, kw_only=True, forbid_unknown_fields=True):
    """Those who send this salt, or those who send none: they have to be meant, not left over by an empty variable."""

    cache_salt: Salt | None = None
    user_id: Salt | None = None
    anonymous: bool | None = None


class ExplainBody(CachedPrompt, kw_only=True):
    model: str | None = None


class InvalidateBody(Struct, kw_only=True):
    """Exactly one of them; `all` is everything of the served model."""

    block: str | None = None
    prefix: CachedPrompt | None = None
    tenant: CacheTenant | None = None
    fingerprint: str | None = None
    all: bool | None = None
