"""Tools as models see them."""

from tailrace.service.tool_objects import function_object, tool_object
from tailrace.service.tools import Tool


def test_what_was_not_said_is_not_there() -> None:
    assert function_object(Tool("f")) == {"name": "f"}
    described = Tool("f", "d", {"type": "object"}, strict=True)
    assert tool_object(described) == {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
    }
