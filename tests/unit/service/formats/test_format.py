"""What a format refuses, and what it says of the answer."""

from dataclasses import replace
from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.api import ALL_TEXT, AnswerForm, ChatPrompt, ToolChoice, ToolMode
from tailrace.service.formats.format import ChatFormat, EncodedChat, ReasoningTags
from tests.support.chats import WEATHER, user


class _Same:
    def encode(self, prompt: ChatPrompt) -> EncodedChat:
        return EncodedChat([str(len(prompt.messages))])


PLAIN = ChatFormat("plain", _Same())
ABLE = ChatFormat("able", _Same(), ReasoningTags(), "hermes", thinks=True)


def _prompt(**options: Any) -> ChatPrompt:
    return ChatPrompt([user("Hi")], **options)


@pytest.mark.parametrize(
    ("options", "param"),
    [({"thinking": True}, "thinking"), ({"effort": "low"}, "reasoning_effort"), ({"tools": (WEATHER,)}, "tools")],
)
def test_what_a_format_cannot_do_is_refused_by_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"'plain'\); leave '{param}' out") as caught:
        PLAIN.encode(_prompt(**options))
    assert caught.value.param == param
    assert ABLE.encode(_prompt(**options)).pieces == ["1"]


@pytest.mark.parametrize(
    "options", [{}, {"thinking": False}, {"tools": (WEATHER,), "tool_choice": ToolChoice(ToolMode.NONE)}]
)
def test_what_is_not_wanted_is_accepted(options: dict[str, Any]) -> None:
    assert PLAIN.encode(_prompt(**options)).pieces == ["1"]


def test_the_form_of_an_answer_says_what_may_be_in_it() -> None:
    assert PLAIN.answer_form(_prompt(), "Once") is ALL_TEXT
    assert ABLE.answer_form(_prompt(), "<think>") == AnswerForm("able", "<think>", has_tools=False)
    with_tools = _prompt(tools=(WEATHER,))
    assert ABLE.answer_form(with_tools, "") == AnswerForm("able", "", has_tools=True)
    no_calls = replace(with_tools, tool_choice=ToolChoice(ToolMode.NONE))
    assert ABLE.answer_form(no_calls, "") == AnswerForm("able", "", has_tools=False)
