"""Files with tools and schemas."""

from pathlib import Path

import pytest

from tailrace.commands.json_file import read_schema, read_tools, tool_choice
from tailrace.errors import SetupError

WEATHER = '{"name": "get_weather"}'
TOOL = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("text", [f"[{WEATHER}]", '[{"type": "function", "function": {"name": "get_weather"}}]'])
def test_functions_may_be_bare(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)

    assert read_tools(path) == [TOOL]


@pytest.mark.parametrize("text", [WEATHER, "[1]", "[", "[" * 100_000])
def test_what_is_no_list_of_tools_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)

    with pytest.raises(SetupError, match=r"tools\.json"):
        read_tools(path)


def test_a_schema_is_an_object(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text("[]")
    with pytest.raises(SetupError, match="a JSON schema is wanted"):
        read_schema(path)
    with pytest.raises(SetupError, match="cannot be read"):
        read_schema(tmp_path / "missing.json")


def test_a_choice_is_a_mode_or_a_function() -> None:
    assert tool_choice("required") == "required"
    assert tool_choice("get_weather") == TOOL
