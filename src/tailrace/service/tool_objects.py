"""Tools as the objects that chat templates and models know."""

from typing import Any

from tailrace.service.tools import Tool

__all__ = ["function_object", "tool_object"]


def function_object(tool: Tool) -> dict[str, Any]:
    """What a client has not said is not in it. Whether arguments may break the schema is no matter of the model's."""
    described: dict[str, Any] = {"name": tool.name}
    if tool.description:
        described["description"] = tool.description
    if tool.parameters:
        described["parameters"] = dict(tool.parameters)
    return described


def tool_object(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": function_object(tool)}
