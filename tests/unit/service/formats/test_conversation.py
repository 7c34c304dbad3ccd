"""Messages as formats see them, and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt
from tailrace.service.formats.conversation import (
    Call,
    Conversation,
    Role,
    Turn,
    as_json,
    read_conversation,
    split_reasoning,
    wants_thinking,
)
from tests.support.chats import assistant, call, result, user


def _read(*messages: Any, **options: Any) -> Conversation:
    return read_conversation(ChatPrompt(messages, **options))


def test_a_conversation_is_read() -> None:
    parts = [{"type": "text", "text": "a"}, "b"]
    chat = _read(
        {"role": "system", "content": "S"},
        user("Hi"),
        assistant(None, call("c", "f", ""), {"function": {"name": "g", "arguments": {"x": 1}}}, reasoning="Hm"),
        result("c", "1"),
        {"role": "tool", "content": parts},
    )
    calls = (Call("c", "f", "{}"), Call("", "g", '{"x": 1}'))
    assert chat.turns[1:] == (
        Turn(Role.USER, "Hi"),
        Turn(Role.ASSISTANT, "", "Hm", calls),
        Turn(Role.TOOL, "1", call_id="c"),
        Turn(Role.TOOL, "a\nb"),
    )
    assert (chat.system, chat.continued, chat.wants_answer) == ("S", None, True)
    assert chat.talk == list(chat.turns[1:])


@pytest.mark.parametrize("ids", [("c", "d"), ("d", "c")])
def test_results_come_in_the_order_of_their_calls_and_unknown_ones_last(ids: Sequence[str]) -> None:
    calls = assistant(None, call("c", "f", "{}"), call("d", "g", "{}"))
    results = [result("x", "x"), *(result(each, each) for each in ids)]
    chat = _read(user("Hi"), calls, *results, assistant("So"), user("?"))
    assert [turn.content for turn in chat.turns[2:]] == ["c", "d", "x", "So", "?"]
    assert [turn.content for turn in _read(calls, *results).turns[1:]] == ["c", "d", "x"]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (["x"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "x" * 1000, "content": ""}], "messages[0].role"),
        ([{"role": "latest_reminder", "content": ""}], "messages[0].role"),
        ([user("x"), {"role": "user"}], "messages[1].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
        ([assistant("x", reasoning_content=5)], "messages[0].reasoning_content"),
        ([{"role": "assistant", "tool_calls": "ab"}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": {"a": 1}}], "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": ["ab"]}], "messages[0].tool_calls[0].function"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages[0].tool_calls[0].function.name"),
        ([{"role": "assistant", "tool_calls": [{**call("", "f", "{}"), "id": 5}]}], "messages[0].tool_calls[0].id"),
        (
            [assistant("", {"function": {"name": "f", "arguments": {1j: 2}}})],
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([user("Hi"), result("c", "x")], "messages[1]"),
        ([assistant("", call("c", "f", "{}")), user("?"), result("c", "x")], "messages[2]"),
    ],
)
def test_malformed_messages_are_refused_by_name(messages: list[Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _read(*messages)
    assert caught.value.param == param
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("last", "param"),
    [
        (user("x"), "messages[1].role"),
        (assistant("x", call("c", "f", "{}")), "messages[1].tool_calls"),
        (assistant(None), "messages[1]"),
    ],
)
def test_what_cannot_be_continued_is_refused(last: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _read(user("Hi"), last, continue_final_message=True)
    assert caught.value.param == param


def test_the_last_answer_is_taken_off_to_be_continued() -> None:
    chat = _read(user("Hi"), assistant("Once"), continue_final_message=True)
    assert (chat.turns, chat.continued) == ((Turn(Role.USER, "Hi"),), Turn(Role.ASSISTANT, "Once"))
    assert not chat.wants_answer


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("documents", [], "it takes thinking, enable_thinking and reasoning_effort"),
        ("thinking", "yes", "'thinking' must be true or false"),
        ("enable_thinking", None, "'enable_thinking' must be true or false"),
        ("reasoning_effort", 75, "must be one of none, minimal, "),
        ("reasoning_effort", ["low"], "must be one of none, minimal, "),
    ],
)
def test_template_arguments_that_nobody_reads_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        _read(user("Hi"), template_args={name: value})
    assert caught.value.param == f"chat_template_kwargs.{name}"


@pytest.mark.parametrize(
    ("options", "default", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"effort": "low"}, False, True),
        ({"effort": "low", "thinking": False}, False, False),
        ({"template_args": {"thinking": False}}, True, False),
        ({"template_args": {"reasoning_effort": "low"}}, False, True),
        ({"template_args": {"reasoning_effort": "none"}}, True, False),
        ({"template_args": {"reasoning_effort": "none", "thinking": True}}, False, True),
    ],
)
def test_whether_to_think(options: dict[str, Any], default: bool, wanted: bool) -> None:
    assert wants_thinking(ChatPrompt([], **options), default) is wanted


@pytest.mark.parametrize(
    ("content", "reasoning", "rest"),
    [
        ("Yo", "", "Yo"),
        ("a <think>b", "", "a <think>b"),
        ("<think>\na\n</think>\n\nYo", "a\n", "\n\nYo"),
        ("a</think>Yo", "a", "Yo"),
        ("a</think>b</think>Yo", "a</think>b", "Yo"),
        (" <think>a", "a", ""),
    ],
)
def test_reasoning_is_told_from_the_answer(content: str, reasoning: str, rest: str) -> None:
    assert split_reasoning(Turn(Role.ASSISTANT, content)) == Turn(Role.ASSISTANT, rest, reasoning)
    apart = Turn(Role.ASSISTANT, content, "r")
    assert split_reasoning(apart) is apart


def test_what_json_cannot_say_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["x"] = loop
    for value in (loop, {1j: 1}, object()):
        with pytest.raises(InvalidRequest, match="x cannot be written as JSON"):
            as_json(value, "x")
    assert as_json({"é": 1}, "x") == '{"é": 1}'
