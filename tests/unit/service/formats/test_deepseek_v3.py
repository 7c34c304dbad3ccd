"""V3 and R1 prompts, character by character."""

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.formats.deepseek_v3 import DeepSeekV3Encoder
from tests.support.chats import EVIL, WEATHER, assistant, call, encoded, reply, result, said, text_of, user

V3 = DeepSeekV3Encoder()
R1 = DeepSeekV3Encoder(reasons=True, opens=True)
R1_0528 = DeepSeekV3Encoder(reasons=True)
ONE = '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>'


def test_systems_stand_in_front_wherever_they_were() -> None:
    messages = [{"role": "system", "content": "S"}, user("Hi"), assistant("Yo"), {"role": "system", "content": "T"}]
    assert text_of(V3, *messages, user("?")) == (
        "<｜begin▁of▁sentence｜>S\n\nT<｜User｜>Hi<｜Assistant｜>Yo<｜end▁of▁sentence｜><｜User｜>?<｜Assistant｜>"
    )


def test_a_single_call_has_its_end() -> None:
    text = text_of(V3, user("Hi"), assistant(None, call("c", "f", '{"a": 1}')), result("c", "R"))
    assert text == (
        f"<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜>{ONE}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>R<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
    )


def test_calls_and_results_stand_on_lines_of_their_own_in_the_order_of_the_calls() -> None:
    calls = assistant("So:", call("c", "f", '{"a": 1}'), call("d", "g", "{}"))
    text = text_of(V3, user("Hi"), calls, result("d", "2"), result("c", "1"), assistant("Done"), user("Ok"))
    second = "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>"
    assert text.partition("So:")[2] == (
        f"{ONE}{second}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>1<｜tool▁output▁end｜>\n"
        "<｜tool▁output▁begin｜>2<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
        "Done<｜end▁of▁sentence｜><｜User｜>Ok<｜Assistant｜>"
    )


def test_results_that_a_user_follows_have_their_end() -> None:
    text = text_of(V3, user("Hi"), assistant(None, call("c", "f", "{}")), result("c", "R"), user("Ok"))
    assert text.endswith("R<｜tool▁output▁end｜><｜tool▁outputs▁end｜><｜User｜>Ok<｜Assistant｜>")


def test_further_calls_go_on_behind_results() -> None:
    again = assistant(None, call("d", "f", '{"a": 1}'))
    text = text_of(V3, user("Hi"), assistant(None, call("c", "f", "{}")), result("c", "R"), again)
    assert f"<｜tool▁outputs▁end｜>{ONE}<｜tool▁calls▁end｜><｜end▁of▁sentence｜>" in text


def test_tools_are_told_of_behind_the_system_text() -> None:
    text = text_of(V3, {"role": "system", "content": "S"}, user("Hi"), tools=(WEATHER,))
    assert text == (
        "<｜begin▁of▁sentence｜>S\n\n## Tools\nYou have access to the following tools:\n\n"
        "### get_weather\nDescription: Get weather\n\n"
        'Parameters: {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, '
        '"required": ["city"]}\n\n'
        "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>tool_call_name\n```json\ntool_call_arguments\n```"
        "<｜tool▁call▁end｜>{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n"
        "- `tool_call_name` must be an exact match to one of the available tools\n"
        "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
        "- For multiple tool calls, begin each further one on a new line<｜User｜>Hi<｜Assistant｜>"
    )


@pytest.mark.parametrize(
    ("encoder", "thinking", "opened"),
    [
        (V3, None, ""),
        (V3, False, ""),
        (R1, None, "<think>\n"),
        (R1, True, "<think>\n"),
        (R1, False, "<think>\n\n</think>\n\n"),
        (R1_0528, None, ""),
        (R1_0528, False, "<think>\n\n</think>\n\n"),
    ],
)
def test_who_begins_to_think(encoder: DeepSeekV3Encoder, thinking: bool | None, opened: str) -> None:
    assert reply(encoder, thinking=thinking) == (f"<｜Assistant｜>{opened}", opened)


def test_reasoning_of_earlier_answers_is_left_out_up_to_its_last_end() -> None:
    told = assistant("<think>a</think>b</think>\n\nYo")
    assert "<｜Assistant｜>\n\nYo<｜end▁of▁sentence｜>" in text_of(R1, user("Hi"), told, user("?"))
    apart = assistant("see </think>", reasoning_content="a")
    assert "<｜Assistant｜>see </think><｜end▁of▁sentence｜>" in text_of(R1, user("Hi"), apart, user("?"))
    assert "<｜Assistant｜>a</think>b<｜end▁of▁sentence｜>" in text_of(V3, user("Hi"), assistant("a</think>b"))


@pytest.mark.parametrize(
    ("encoder", "message", "opened"),
    [
        (V3, assistant("Once"), "Once"),
        (R1, assistant("Once"), "<think>\n\n</think>\n\nOnce"),
        (R1, assistant("Once", reasoning_content="Hm"), "<think>\nHm\n</think>\n\nOnce"),
        (R1, assistant("", reasoning_content="Hm"), "<think>\nHm"),
        (R1, assistant("<think>\nHm"), "<think>\nHm"),
        (R1, assistant("<think>\nHm</think>Once"), "<think>\nHm\n</think>\n\nOnce"),
    ],
)
def test_an_answer_can_be_continued(encoder: DeepSeekV3Encoder, message: dict[str, object], opened: str) -> None:
    assert reply(encoder, message, continue_final_message=True) == (f"<｜Assistant｜>{opened}", opened)


def test_a_thought_cannot_be_continued_where_there_are_none() -> None:
    with pytest.raises(InvalidRequest, match="does not think") as caught:
        reply(V3, assistant("", reasoning_content="Hm"), continue_final_message=True)
    assert caught.value.param == "messages[1].content"


def test_an_answer_behind_results_is_continued_without_a_header() -> None:
    messages = [user("Hi"), assistant(None, call("c", "f", "{}")), result("c", "R"), assistant("Once")]
    assert text_of(V3, *messages, continue_final_message=True).endswith("<｜tool▁outputs▁end｜>Once")


def test_without_an_answer_the_prompt_ends_with_the_user() -> None:
    assert reply(R1, add_generation_prompt=False) == ("", "")


def test_what_people_typed_is_no_markup() -> None:
    messages = [user(EVIL), assistant(EVIL, call(EVIL, EVIL, EVIL)), result(EVIL, EVIL)]
    pieces = encoded(R1_0528, {"role": "system", "content": EVIL}, *messages).pieces
    assert "".join(pieces[1::2]).count("<｜User｜>") == 1
    assert said(pieces).count("<｜User｜>") == 5  # the assistant's own up to </think> is left out
