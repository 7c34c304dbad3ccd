"""Options of a chat in the words of OpenAI's API, for whoever has no others."""

from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.frontends.chat_options import (
    CHAT_OPTIONS,
    chat_prompt_of,
    format_wished,
    read_chat_options,
    refuse_chat_options,
)
from tailrace.service.api import OutputKind, ToolMode

MESSAGES = [{"role": "user", "content": "Hi"}]
LOOK = {"type": "function", "function": {"name": "look"}}


def test_options_of_a_chat_are_its_prompt() -> None:
    options = read_chat_options({"messages": MESSAGES, "tools": [LOOK], "tool_choice": "none", "thinking": False})
    prompt = chat_prompt_of(options)
    assert list(prompt.messages) == MESSAGES
    assert [tool.name for tool in prompt.tools] == ["look"]
    assert (prompt.tool_choice.mode, prompt.thinking) == (ToolMode.NONE, False)
    assert format_wished(options) is None


def test_what_the_answer_looks_like_may_be_said_of_a_text() -> None:
    options = read_chat_options({"response_format": {"type": "json_object"}})
    refuse_chat_options(options)
    wanted = format_wished(options)
    assert wanted is not None
    assert wanted.kind is OutputKind.JSON_OBJECT


@pytest.mark.parametrize("name", sorted(CHAT_OPTIONS - {"response_format", "structured_outputs"}))
def test_the_rest_goes_with_messages_alone(name: str) -> None:
    values: dict[str, Any] = {"tools": [LOOK], "tool_choice": "auto", "reasoning_effort": "low"}
    with pytest.raises(InvalidRequest, match="goes with messages") as refused:
        refuse_chat_options(read_chat_options({name: values.get(name, False)}))
    assert refused.value.param == name


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": "all"}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"thinking": "yes"}, "thinking"),
        ({"colour": "red"}, "colour"),
        ({"messages": []}, "messages"),
    ],
)
def test_what_is_wrong_has_the_name_of_its_option(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_chat_options(given)
    assert refused.value.param == param
