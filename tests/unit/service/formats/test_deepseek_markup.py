"""The page that tells of tools."""

from tailrace.service.formats.deepseek_markup import write_system
from tailrace.service.formats.writer import PromptWriter
from tests.support.chats import WEATHER


def _written(system: str, *, with_tools: bool) -> str:
    writer = PromptWriter()
    write_system(writer, system, (WEATHER, WEATHER) if with_tools else (), "HOW")
    return "".join(writer.done().pieces)


def test_a_section_for_each_tool_stands_behind_the_system_text() -> None:
    assert _written("S", with_tools=False) == "S"
    page = _written("", with_tools=True)
    assert page.startswith("## Tools\nYou have access to the following tools:\n\n### get_weather\nDescription: ")
    assert page.count("\n\nParameters: {") == 2
    assert page.endswith("}\n\nHOW")
    assert _written("S", with_tools=True) == f"S\n\n{page}"
