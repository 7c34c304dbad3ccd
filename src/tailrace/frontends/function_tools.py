"""Tools and what is to be called in the words of OpenAI's chats, which Python clients use too."""

from typing import Any, Literal

from msgspec import Struct

from tailrace.frontends.tools import ToolName, choice_of, tool_of, tools_of
from tailrace.service.api import Tool, ToolChoice, ToolMode

__all__ = ["FunctionTool", "ToolWish", "tool_choice", "tools"]


class Function(Struct, forbid_unknown_fields=True):
    """`parameters` are a JSON schema of an object."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: Function


class FunctionName(Struct, forbid_unknown_fields=True):
    name: ToolName


class FunctionWish(Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: FunctionName


ToolWish = Literal["none", "auto", "required"] | FunctionWish


def tools(given: list[FunctionTool] | None) -> tuple[Tool, ...]:
    """Raises InvalidRequest for a tool that is none."""
    return tools_of(_tool(each.function, f"tools[{i}].function") for i, each in enumerate(given or ()))


def _tool(function: Function, place: str) -> Tool:
    return tool_of(function.name, function.description, function.parameters, strict=function.strict, place=place)


def tool_choice(wish: ToolWish | None, offered: tuple[Tool, ...], *, is_parallel: bool | None) -> ToolChoice:
    """Raises InvalidRequest for a choice that is not among the tools offered."""
    if isinstance(wish, FunctionWish):
        param = "tool_choice.function.name"
        return choice_of(ToolMode.REQUIRED, wish.function.name, offered, is_parallel=is_parallel, param=param)
    return choice_of(ToolMode(wish or "auto"), None, offered, is_parallel=is_parallel)
