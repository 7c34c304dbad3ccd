"""The bodies of messages, as typed structs, and what may be in their lists by type.

`cache_control` is everywhere and changes nothing: caching is automatic, and finds every shared prefix.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tailrace.frontends.http.body import Count, GenerationBody, StopString
from tailrace.frontends.parts import Content, Part
from tailrace.frontends.tools import ToolName
from tailrace.frontends.values import Salt, TemplateArgs

__all__ = [
    "AdaptiveThinking",
    "CountBody",
    "CustomTool",
    "DisabledThinking",
    "EnabledThinking",
    "JsonSchemaFormat",
    "MessagesBody",
    "Questions",
    "RedactedThinkingPart",
    "TextPart",
    "ThinkingPart",
    "ToolResultPart",
    "ToolUsePart",
    "Turn",
]


class Turn(Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: Content


class TextPart(Struct, tag_field="type", tag="text", forbid_unknown_fields=True, kw_only=True):
    """Where it was quoted from changes nothing."""

    text: str
    cache_control: object = None
    citations: object = None


class ToolUsePart(Struct, tag_field="type", tag="tool_use", forbid_unknown_fields=True, kw_only=True):
    id: str
    name: Annotated[str, Meta(min_length=1, max_length=1024)]
    input: dict[str, Any]
    cache_control: object = None


class ToolResultPart(Struct, tag_field="type", tag="tool_result", forbid_unknown_fields=True, kw_only=True):
    tool_use_id: str
    content: Content = ""
    is_error: bool | None = None
    cache_control: object = None


class ThinkingPart(Struct, tag_field="type", tag="thinking", forbid_unknown_fields=True, kw_only=True):
    """Whoever signed it, it is what the model thought."""

    thinking: str
    signature: str = ""


class RedactedThinkingPart(Struct, tag_field="type", tag="redacted_thinking", forbid_unknown_fields=True, kw_only=True):
    """Nobody but its maker can read it: it is left out."""

    data: str


class CustomTool(Struct, tag_field="type", tag="custom", forbid_unknown_fields=True, kw_only=True):
    """All inputs are streamed as they are written, which is what `eager_input_streaming` asks for."""

    name: ToolName
    input_schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None
    cache_control: object = None
    eager_input_streaming: bool | None = None
    allowed_callers: list[Literal["direct"]] | None = None


class ToolChoiceBody(Struct, forbid_unknown_fields=True, kw_only=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


Display = Literal["summarized", "omitted"]  # what is shown is whole, and no summary


class EnabledThinking(Struct, tag_field="type", tag="enabled", forbid_unknown_fields=True, kw_only=True):
    """`budget_tokens` is a hint and not enforced: the model ends its thinking itself, and `max_tokens` bounds all."""

    budget_tokens: Annotated[int, Meta(ge=1024, le=2**31 - 1)]
    display: Display | None = None


class AdaptiveThinking(Struct, tag_field="type", tag="adaptive", forbid_unknown_fields=True, kw_only=True):
    display: Display | None = None


class DisabledThinking(Struct, tag_field="type", tag="disabled", forbid_unknown_fields=True):
    pass


class JsonSchemaFormat(Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    schema: dict[str, Any]


class OutputConfig(Struct, forbid_unknown_fields=True, kw_only=True):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Part | None = None


class Metadata(Struct, forbid_unknown_fields=True):
    user_id: Salt | None = None


Turns = Annotated[list[Turn], Meta(min_length=1)]
Speed = Literal["standard", "fast"]


class MessagesBody(GenerationBody, kw_only=True):
    """What the API has, and the sampling fields of the other endpoints besides."""

    messages: Turns
    max_tokens: Count
    system: Content | None = None
    tools: list[Part] | None = None
    tool_choice: ToolChoiceBody | None = None
    thinking: Part | None = None
    output_config: OutputConfig | None = None
    stop_sequences: Annotated[list[StopString], Meta(max_length=4)] | None = None
    metadata: Metadata | None = None
    speed: Speed | None = None
    chat_template_kwargs: TemplateArgs | None = None


class CountBody(Struct, kw_only=True):
    messages: Turns
    model: str | None = None
    system: Content | None = None
    tools: list[Part] | None = None
    tool_choice: ToolChoiceBody | None = None
    thinking: Part | None = None
    output_config: OutputConfig | None = None
    speed: Speed | None = None
    chat_template_kwargs: TemplateArgs | None = None


Questions = MessagesBody | CountBody
