"""ChatML prompts with tools, character by character as Qwen publishes them."""

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.formats.hermes import HermesEncoder
from tests.support.chats import EVIL, WEATHER, assistant, call, encoded, result, said, text_of, user

HERMES = HermesEncoder()
THINKER = HermesEncoder(reasons=True)
TOOLS = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    '{"type": "function", "function": {"name": "get_weather", "description": "Get weather", "parameters": '
    '{"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, '
    '"required": ["city"]}}}\n</tools>\n\n'
    "For each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
)


def test_tools_stand_behind_the_first_system_text() -> None:
    begin = "<|im_start|>system\n"
    end = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert text_of(HERMES, user("Hi"), tools=(WEATHER,)) == f"{begin}{TOOLS}{end}"
    system = {"role": "system", "content": "S"}
    assert text_of(HERMES, system, user("Hi"), tools=(WEATHER,)) == f"{begin}S\n\n{TOOLS}{end}"


def test_results_share_a_user_s_turn_in_the_order_of_the_calls() -> None:
    calls = assistant("So:", call("c", "f", '{"a": 1}'), call("d", 'g"', "{}"))
    text = text_of(HERMES, user("Hi"), calls, result("d", "2"), result("c", "1"), user("?"))
    assert text.partition("Hi<|im_end|>\n")[2] == (
        '<|im_start|>assistant\nSo:\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g\\"", "arguments": {}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_calls_without_words_begin_on_the_line_behind_the_role() -> None:
    text = text_of(HERMES, user("Hi"), assistant(None, call("c", "f", "{}")), result("c", "R"))
    assert '<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>\n' in text


def test_every_prompt_begins_with_the_token_of_the_model() -> None:
    assert text_of(HermesEncoder("<s>"), user("Hi")).startswith("<s><|im_start|>user\nHi")


def test_a_model_that_thinks_is_kept_from_it_by_an_empty_thought() -> None:
    assert encoded(THINKER, user("Hi"), thinking=False).opened == "<think>\n\n</think>\n\n"
    assert encoded(THINKER, user("Hi")).opened == ""
    assert encoded(HERMES, user("Hi"), thinking=False).opened == ""
    opener = HermesEncoder(reasons=True, opens=True)
    assert encoded(opener, user("Hi")).opened == "<think>\n"
    assert encoded(opener, user("Hi"), thinking=False).opened == "<think>\n\n</think>\n\n"


def test_earlier_reasoning_is_left_out() -> None:
    messages = (user("Hi"), assistant("<think>\na\n</think>\n\nYo"), user("?"))
    assert "<|im_start|>assistant\nYo<|im_end|>" in text_of(THINKER, *messages)
    assert "assistant\n<think>\na\n</think>\n\nYo<|im_end|>" in text_of(HERMES, *messages)


@pytest.mark.parametrize(
    ("encoder", "message", "opened"),
    [
        (HERMES, assistant("Once"), "Once"),
        (THINKER, assistant("Once"), "<think>\n\n</think>\n\nOnce"),
        (THINKER, assistant("Once", reasoning_content="Hm"), "<think>\nHm\n</think>\n\nOnce"),
        (THINKER, assistant(None, reasoning_content="Hm"), "<think>\nHm"),
    ],
)
def test_an_answer_can_be_continued(encoder: HermesEncoder, message: dict[str, object], opened: str) -> None:
    chat = encoded(encoder, user("Hi"), message, continue_final_message=True)
    assert (chat.opened, "".join(chat.pieces).partition("assistant\n")[2]) == (opened, opened)


def test_a_thought_cannot_be_continued_where_there_are_none() -> None:
    with pytest.raises(InvalidRequest, match="does not think"):
        encoded(HERMES, user("Hi"), assistant("", reasoning_content="Hm"), continue_final_message=True)


def test_what_people_typed_is_no_markup() -> None:
    messages = [user(EVIL), assistant(EVIL, call(EVIL, EVIL, EVIL)), result(EVIL, EVIL)]
    pieces = encoded(HERMES, {"role": "system", "content": EVIL}, *messages, tools=(WEATHER,)).pieces
    assert "".join(pieces[1::2]).count("<|im_end|>") == 4
    assert said(pieces).count("<|im_end|>") == 6
