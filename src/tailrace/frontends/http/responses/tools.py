"""Tools of a response, the choice among them, and what its text must look like."""

from collections.abc import Iterator, Sequence

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.responses.schema import (
    FunctionChoice,
    FunctionTool,
    JsonObjectFormat,
    JsonSchemaFormat,
    PlainFormat,
    ResponseBody,
)
from tailrace.frontends.output_format import json_format, schema_format
from tailrace.frontends.parts import Part
from tailrace.frontends.tools import choice_of, tool_of, tools_of
from tailrace.frontends.typed_parts import typed_part
from tailrace.service.api import OutputFormat, Tool, ToolChoice, ToolMode

__all__ = ["format_of_text", "read_choice", "read_tools"]

_TOOLS = {"function": FunctionTool}
_CHOICES = {"function": FunctionChoice}
_FORMATS = {"text": PlainFormat, "json_object": JsonObjectFormat, "json_schema": JsonSchemaFormat}


def read_tools(fields: ResponseBody) -> tuple[Tool, ...]:
    """Raises InvalidRequest for tools that are no functions: those a server would run, and there are none."""
    return tools_of(_tools(fields.tools or ()))


def _tools(given: Sequence[Part]) -> Iterator[Tool]:
    for number, part in enumerate(given):
        place = f"tools[{number}]"
        tool = typed_part(part, _TOOLS, place)
        assert isinstance(tool, FunctionTool)
        yield tool_of(tool.name, tool.description, tool.parameters, strict=tool.strict, place=place)


def read_choice(fields: ResponseBody, tools: Sequence[Tool]) -> ToolChoice:
    """Raises InvalidRequest for a choice of what is not there."""
    given, is_parallel = fields.tool_choice, fields.parallel_tool_calls
    if given is None or isinstance(given, str):
        return choice_of(ToolMode(given or "auto"), None, tools, is_parallel=is_parallel)
    if given.get("type") == "allowed_tools":
        raise InvalidRequest(
            "tool_choice.type is 'allowed_tools'; send those tools alone instead", param="tool_choice.type"
        )
    choice = typed_part(given, _CHOICES, "tool_choice")
    assert isinstance(choice, FunctionChoice)
    return choice_of(ToolMode.REQUIRED, choice.name, tools, is_parallel=is_parallel)


def format_of_text(fields: ResponseBody) -> OutputFormat | None:
    """Raises InvalidRequest for a format that is not there, or too large."""
    if fields.text is None or fields.text.format is None:
        return None
    wish = typed_part(fields.text.format, _FORMATS, "text.format")
    if isinstance(wish, JsonSchemaFormat):
        return schema_format(wish.schema, "text.format.schema")
    return json_format("text.format") if isinstance(wish, JsonObjectFormat) else None
