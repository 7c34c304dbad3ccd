"""Tools of a message and the choice among them."""

from collections.abc import Iterator, Sequence

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.anthropic.schema import CustomTool, Questions
from tailrace.frontends.parts import Part
from tailrace.frontends.tools import choice_of, tool_of, tools_of
from tailrace.frontends.typed_parts import typed_part
from tailrace.service.api import Tool, ToolChoice, ToolMode

__all__ = ["read_choice", "read_tools"]

_TOOLS = {"custom": CustomTool}
_MODES = {"auto": ToolMode.AUTO, "any": ToolMode.REQUIRED, "tool": ToolMode.REQUIRED, "none": ToolMode.NONE}


def read_tools(fields: Questions) -> tuple[Tool, ...]:
    """Raises InvalidRequest for tools that a server would run, or that Anthropic's models know by their type."""
    return tools_of(_tools(fields.tools or ()))


def _tools(given: Sequence[Part]) -> Iterator[Tool]:
    for number, part in enumerate(given):
        place = f"tools[{number}]"
        tool = typed_part(part, _TOOLS, place, default="custom")
        assert isinstance(tool, CustomTool)
        schema = tool.input_schema
        yield tool_of(tool.name, tool.description, schema, strict=tool.strict, place=place, schema_field="input_schema")


def read_choice(fields: Questions, tools: Sequence[Tool]) -> ToolChoice:
    """Raises InvalidRequest for a choice of what is not there."""
    choice = fields.tool_choice
    if choice is None:
        return choice_of(ToolMode.AUTO, None, tools)
    if (choice.name is not None) != (choice.type == "tool"):
        raise InvalidRequest("tool_choice.name goes with the type 'tool', and it with a name", param="tool_choice.name")
    is_parallel = not choice.disable_parallel_tool_use
    return choice_of(_MODES[choice.type], choice.name, tools, is_parallel=is_parallel)
