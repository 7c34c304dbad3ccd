"""What may be asked of a chat, in the words of OpenAI's API: for whoever has no words of its own."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.chat import Message, chat_prompt
from tailrace.frontends.complaint import invalid_value
from tailrace.frontends.function_tools import FunctionTool, ToolWish, tool_choice, tools
from tailrace.frontends.output_format import ResponseFormat, StructuredOutputs, output_format_of
from tailrace.frontends.tools import MAX_TOOLS
from tailrace.service.api import ChatPrompt, OutputFormat

__all__ = ["CHAT_OPTIONS", "ChatOptions", "chat_prompt_of", "format_wished", "read_chat_options", "refuse_chat_options"]


class ChatOptions(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Messages, and how to answer them. What the answer looks like may be said of texts, too."""

    messages: Annotated[list[Message], Meta(min_length=1)] | None = None
    tools: Annotated[list[FunctionTool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolWish | None = None
    parallel_tool_calls: bool | None = None
    thinking: bool | None = None
    reasoning_effort: str | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None


CHAT_OPTIONS = frozenset(ChatOptions.__struct_fields__) - {"messages"}
_OF_MESSAGES = ("tools", "tool_choice", "parallel_tool_calls", "thinking", "reasoning_effort")


def read_chat_options(given: Mapping[str, Any]) -> ChatOptions:
    """Raises InvalidRequest with the name of the option."""
    try:
        return msgspec.convert(dict(given), ChatOptions)
    except msgspec.ValidationError as error:
        raise invalid_value(str(error)) from None


def chat_prompt_of(options: ChatOptions) -> ChatPrompt:
    """Of its messages. Raises InvalidRequest."""
    offered = tools(options.tools)
    return chat_prompt(
        options.messages or [],
        add_generation_prompt=None,
        continue_final_message=None,
        template_args=None,
        tools=offered,
        tool_choice=tool_choice(options.tool_choice, offered, is_parallel=options.parallel_tool_calls),
        thinking=options.thinking,
        effort=options.reasoning_effort,
    )


def refuse_chat_options(options: ChatOptions) -> None:
    """Raises InvalidRequest for what goes with messages alone."""
    for name in _OF_MESSAGES:
        if getattr(options, name) is not None:
            raise InvalidRequest(f"{name} goes with messages, not with a prompt of text", param=name)


def format_wished(options: ChatOptions) -> OutputFormat | None:
    """Raises InvalidRequest for a format that cannot be."""
    return output_format_of(options.response_format, options.structured_outputs)
