"""Conversations with reasoning and calls as prompts."""

from typing import Any

import msgspec
import pytest

from tailrace.errors import InvalidRequest
from tailrace.frontends.chat import Message, chat_prompt
from tailrace.service.api import ChatPrompt, Tool, ToolChoice, ToolMode

USER = {"role": "user", "content": "How is it?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}


def prompt_of(*messages: dict[str, Any], **fields: Any) -> ChatPrompt:
    wish: dict[str, Any] = dict.fromkeys(("add_generation_prompt", "continue_final_message", "template_args"))
    return chat_prompt(msgspec.convert(list(messages), list[Message]), **wish | fields)


def refused(*messages: dict[str, Any], **fields: Any) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        prompt_of(*messages, **fields)
    return caught.value.param


def test_calls_and_their_results_arrive_as_templates_know_them() -> None:
    assert list(prompt_of(USER, CALLS, RESULT).messages) == [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        RESULT,
    ]


def test_a_call_comes_back_from_a_stream_as_it_went() -> None:
    streamed = CALL | {"index": 0}
    assert prompt_of(USER, CALLS | {"tool_calls": [streamed]}).messages == prompt_of(USER, CALLS).messages


def test_arguments_that_are_no_json_are_passed_on_as_text() -> None:
    broken = {"id": "c", "function": {"name": "not a name", "arguments": '{"city": '}}
    (message,) = prompt_of({"role": "assistant", "tool_calls": [broken]}).messages
    assert message["tool_calls"] == [broken | {"type": "function"}]


def test_results_may_come_in_any_order_and_after_other_turns() -> None:
    both = CALLS | {"tool_calls": [CALL, CALL | {"id": "call_2"}]}
    second = RESULT | {"tool_call_id": "call_2"}
    assert [each.get("tool_call_id") for each in prompt_of(USER, both, second, USER, RESULT).messages] == [
        None,
        None,
        "call_2",
        None,
        "call_1",
    ]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([RESULT], "messages[0].tool_call_id"),
        ([USER, RESULT, CALLS], "messages[1].tool_call_id"),
        ([CALLS, RESULT | {"tool_call_id": "call_7"}], "messages[1].tool_call_id"),
        ([CALLS, {"role": "tool", "content": "sunny"}], "messages[1].tool_call_id"),
        ([CALLS, {"role": "tool", "tool_call_id": "call_1"}], "messages[1].content"),
        ([USER | {"tool_calls": [CALL]}], "messages[0].tool_calls"),
        ([CALLS, USER | {"tool_call_id": "call_1"}], "messages[1].tool_call_id"),
        ([CALLS | {"tool_calls": [CALL, CALL | {"id": ""}]}], "messages[0].tool_calls[1].id"),
        ([{"role": "function", "name": "weather", "content": "sunny"}], "messages[0].role"),
        ([{"role": "assistant", "function_call": {"name": "a"}}], "messages[0].function_call"),
    ],
)
def test_what_belongs_to_no_call_is_refused_with_its_place(messages: list[dict[str, Any]], param: str) -> None:
    assert refused(*messages) == param


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_comes_back_in_either_field(field: str) -> None:
    said = {"role": "assistant", "content": "Fine."}
    assert prompt_of(said | {field: "Hm."}, USER).messages[0] == said | {"reasoning_content": "Hm."}
    both = {"reasoning": "Hm.", "reasoning_content": "Hm."}
    assert prompt_of(said | both, USER).messages[0] == said | {"reasoning_content": "Hm."}
    assert prompt_of(said | {"reasoning": "Hm.", "reasoning_content": ""}, USER).messages[0] == said | {
        "reasoning_content": "Hm."
    }
    assert refused(said | both | {field: "Oh."}) == "messages[0].reasoning"


def test_the_last_message_is_continued_with_its_reasoning() -> None:
    begun = {"role": "assistant", "content": "It", "reasoning_content": "Hm.", "prefix": True}
    prompt = prompt_of(USER, begun)
    assert prompt.continue_final_message
    assert prompt.messages[1] == {"role": "assistant", "content": "It", "reasoning_content": "Hm."}


def test_tools_and_thinking_are_of_the_prompt() -> None:
    tools, choice = (Tool("f"),), ToolChoice(ToolMode.NONE)
    prompt = prompt_of(USER, tools=tools, tool_choice=choice, thinking=True, effort="low")
    assert (prompt.tools, prompt.tool_choice, prompt.thinking, prompt.effort) == (tools, choice, True, "low")


def test_template_arguments_turn_thinking_on_and_reach_the_template() -> None:
    prompt = prompt_of(USER, template_args={"enable_thinking": False})
    assert prompt.thinking is False
    assert prompt.template_args == {"enable_thinking": False}
    assert refused(USER, thinking=True, template_args={"thinking": False}) == "chat_template_kwargs.thinking"
