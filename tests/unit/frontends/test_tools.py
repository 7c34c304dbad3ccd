"""Tools, the choice among them and earlier calls: what is taken, and what is refused with its place."""

from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.frontends.tools import (
    MAX_SCHEMA_BYTES,
    MAX_TOOLS,
    CallHistory,
    call_of,
    choice_of,
    tool_of,
    tools_of,
)
from tailrace.service.api import ANY_CALLS, Tool, ToolChoice, ToolMode

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PLACE = "tools[2].function"


def tool(name: str = "f", description: str | None = None, parameters: dict[str, Any] | None = None) -> Tool:
    return tool_of(name, description, parameters, place=PLACE)


def test_a_tool_says_what_the_client_said() -> None:
    taken = tool_of("get.weather-2_x", "Says how it is", SCHEMA, strict=True, place=PLACE)
    assert taken == Tool("get.weather-2_x", "Says how it is", SCHEMA, strict=True)
    assert tool() == Tool("f", "", {}, strict=False)
    assert tool(parameters={"anyOf": [SCHEMA]}).parameters == {"anyOf": [SCHEMA]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "wetter_für"}, "name"),
        ({"description": "x" * 70_000}, "description"),
        ({"parameters": {"type": "string"}}, "parameters.type"),
        ({"parameters": {"type": ["object", "null"]}}, "parameters.type"),
        ({"parameters": {"const": "x" * MAX_SCHEMA_BYTES}}, "parameters"),
        ({"parameters": {"const": 10**5000}}, "parameters"),
    ],
)
def test_what_is_wrong_with_a_tool_is_said_with_its_place(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        tool(**fields)
    assert caught.value.param == f"{PLACE}.{param}"
    assert len(str(caught.value)) < 300


def test_a_schema_that_nests_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        tool(parameters=schema)


def test_there_are_so_many_tools_and_each_name_once() -> None:
    many = [Tool(f"f{i}") for i in range(MAX_TOOLS)]
    assert tools_of(many) == tuple(many)
    with pytest.raises(InvalidRequest, match="at most 128"):
        tools_of([*many, Tool("one_more")])
    with pytest.raises(InvalidRequest, match=r"tools\[1\] has the name 'a'"):
        tools_of([Tool("a"), Tool("a")])


def test_without_tools_nothing_can_be_chosen() -> None:
    assert choice_of(ToolMode.AUTO, None, ()) == ANY_CALLS
    assert choice_of(ToolMode.NONE, None, (), is_parallel=False) == ANY_CALLS
    with pytest.raises(InvalidRequest, match="there are no tools") as caught:
        choice_of(ToolMode.REQUIRED, None, ())
    assert caught.value.param == "tool_choice"


def test_a_choice_is_among_the_tools() -> None:
    tools = (Tool("a"), Tool("b"))
    assert choice_of(ToolMode.AUTO, None, tools) == ANY_CALLS
    assert choice_of(ToolMode.NONE, None, tools) == ToolChoice(ToolMode.NONE)
    assert choice_of(ToolMode.REQUIRED, "b", tools, is_parallel=False) == ToolChoice(
        ToolMode.REQUIRED, "b", is_parallel=False
    )
    with pytest.raises(InvalidRequest, match=r"'c', which is not among the tools \(a, b\)"):
        choice_of(ToolMode.REQUIRED, "c", tools)


def test_a_result_belongs_to_an_earlier_call() -> None:
    calls = CallHistory()
    calls.add("call_1", "f", "messages[1].tool_calls[0].id")
    assert calls.name_of("call_1", "messages[2].tool_call_id") == "f"
    with pytest.raises(InvalidRequest, match="'call_2', which no earlier call has") as caught:
        calls.name_of("call_2", "messages[2].tool_call_id")
    assert caught.value.param == "messages[2].tool_call_id"
    for call_id in ("", "x" * 257):
        with pytest.raises(InvalidRequest, match="1 to 256 characters"):
            calls.add(call_id, "f", "id")


def test_a_call_of_a_history_has_the_shape_that_templates_know() -> None:
    assert call_of("call_1", "f", "{no json") == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": "{no json"},
    }
