"""The body of a response, as a typed struct. Tools and reasoning will have their fields here."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tailrace.frontends.http.body import Count, GenerationBody, StopString, TopLogprobs
from tailrace.frontends.parts import Part
from tailrace.frontends.values import TemplateArgs

__all__ = ["Item", "ResponseBody", "StreamOptions", "TextConfig"]

Item = dict[str, object]
"""A part of the conversation, not yet looked at: its `type` decides what else may be in it."""

# Most of it is about the output of tools, and there are none.
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
    # The rest is told again in the answer, and changes nothing.
    metadata: Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)] | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Count | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
