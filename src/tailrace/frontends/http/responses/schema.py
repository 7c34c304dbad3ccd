"""The body of a response, as a typed struct, and what may be in its lists by type."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tailrace.frontends.http.body import Count, GenerationBody, StopString, TopLogprobs
from tailrace.frontends.parts import Part
from tailrace.frontends.tools import ToolName
from tailrace.frontends.values import TemplateArgs

__all__ = [
    "CallItem",
    "CallOutputItem",
    "FunctionChoice",
    "FunctionTool",
    "Item",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "PlainFormat",
    "ReasoningItem",
    "ResponseBody",
    "StreamOptions",
    "TextConfig",
]

Item = dict[str, object]
"""A part of the conversation, not yet looked at: its `type` decides what else may be in it."""

# Most of it is about the output of tools that a server runs, and there are none.
Includable = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]
MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]


ItemStatus = Literal["in_progress", "completed", "incomplete"]


class CallItem(Struct, tag_field="type", tag="function_call", forbid_unknown_fields=True, kw_only=True):
    """A call of an earlier answer, as the model wrote it, right or wrong."""

    call_id: str
    name: Annotated[str, Meta(min_length=1, max_length=1024)]
    arguments: str
    id: str | None = None
    status: ItemStatus | None = None


class CallOutputItem(Struct, tag_field="type", tag="function_call_output", forbid_unknown_fields=True, kw_only=True):
    call_id: str
    output: str | list[Part]
    id: str | None = None
    status: ItemStatus | None = None


class ReasoningItem(Struct, tag_field="type", tag="reasoning", forbid_unknown_fields=True, kw_only=True):
    """Reasoning of an earlier answer. What is encrypted, or a summary, no model here can go on from: it is left out."""

    content: list[Part] = []
    id: str | None = None
    summary: list[Part] = []
    encrypted_content: str | None = None
    status: ItemStatus | None = None


class FunctionTool(Struct, tag_field="type", tag="function", forbid_unknown_fields=True, kw_only=True):
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionChoice(Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    name: str


class PlainFormat(Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    pass


class JsonObjectFormat(Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    pass


class JsonSchemaFormat(Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True, kw_only=True):
    """`name` and `description` are for the client's own bookkeeping. A schema is obeyed, `strict` or not."""

    schema: dict[str, Any]
    name: ToolName | None = None
    description: str | None = None
    strict: bool | None = None


class Reasoning(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of a summary, "auto" is the best that there is: the reasoning itself, which is always sent."""

    effort: str | None = None
    summary: Literal["auto"] | None = None
    generate_summary: Literal["auto"] | None = None
    context: Literal["auto"] | None = None
    mode: Literal["standard"] | None = None


class TextConfig(Struct, forbid_unknown_fields=True):
    format: Part | None = None
    verbosity: str | None = None


class StreamOptions(Struct, forbid_unknown_fields=True):
    include_obfuscation: bool | None = None


class ResponseBody(GenerationBody, kw_only=True):
    """What the API has, and the sampling fields of completions besides."""

    input: str | Annotated[list[Item], Meta(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    include: list[Includable] | None = None
    top_logprobs: TopLogprobs | None = None
    text: TextConfig | None = None
    stream_options: StreamOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    stop: StopString | Annotated[list[StopString], Meta(max_length=4)] | None = None
    chat_template_kwargs: TemplateArgs | None = None
    tools: list[Part] | None = None
    tool_choice: Literal["auto", "none", "required"] | Part | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    # The rest is told again in the answer, and changes nothing.
    metadata: Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)] | None = None
    max_tool_calls: Count | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
