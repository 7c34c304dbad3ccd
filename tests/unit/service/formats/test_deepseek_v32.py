"""V3.2 prompts: who thinks, what is kept of it, and what may be continued. The whole texts are in tests/oracle."""

import pytest

from tailrace.service.formats.deepseek_v32 import DeepSeekV32Encoder
from tests.support.chats import EVIL, WEATHER, assistant, call, encoded, reply, result, said, text_of, user
from tests.support.deepseek import deepseek_tokenizer

V32 = DeepSeekV32Encoder()


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        ({}, "</think>"),
        ({"thinking": True}, "<think>"),
        ({"effort": "high"}, "<think>"),
        ({"thinking": False}, "</think>"),
    ],
)
def test_a_lone_tag_says_whether_to_think(options: dict[str, object], tag: str) -> None:
    assert reply(V32, **options) == (f"<｜Assistant｜>{tag}", tag)


def test_thoughts_are_kept_since_the_last_user() -> None:
    calls = assistant("", call("c", "f", "{}"), reasoning_content="one")
    messages = [user("Hi"), calls, result("c", "R"), assistant("A", reasoning_content="two")]
    recent = text_of(V32, *messages[:3], thinking=True)
    assert "<think>one</think>\n\n<｜DSML｜function_calls>" in recent
    assert recent.endswith("\n\n<function_results>\n<result>R</result>\n</function_results>\n\n<think>")
    earlier = text_of(V32, *messages, user("?"), thinking=True)
    assert "one" not in earlier
    assert "two" not in earlier
    assert earlier.endswith("</function_results>\n\n</think>A<｜end▁of▁sentence｜><｜User｜>?<｜Assistant｜><think>")


def test_a_thought_that_nobody_sent_was_empty() -> None:
    messages = [user("Hi"), assistant("A"), {"role": "system", "content": "S"}]
    text = "<think></think>A<｜end▁of▁sentence｜>S<｜Assistant｜><think>"
    assert text_of(V32, *messages, thinking=True).endswith(text)


def test_results_that_are_missing_leave_no_open_block() -> None:
    calls = assistant("", call("c", "f", "{}"), call("d", "f", "{}"))
    assert text_of(V32, user("Hi"), calls, result("c", "R")).endswith("</result>\n</function_results>\n\n</think>")


def test_arguments_that_are_no_object_are_one_parameter() -> None:
    text = text_of(V32, user("Hi"), assistant("", call("c", "f", '{"a"')), result("c", "R"))
    shown = '<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="arguments" string="true">{"a"</｜DSML｜parameter>\n'
    assert shown in text


@pytest.mark.parametrize(
    ("message", "thinking", "opened"),
    [
        (assistant("Once"), None, "</think>Once"),
        (assistant("Once"), True, "<think></think>Once"),
        (assistant("Once", reasoning_content="Hm"), None, "<think>Hm</think>Once"),
        (assistant("", reasoning_content="Hm"), None, "<think>Hm"),
    ],
)
def test_an_answer_can_be_continued(message: dict[str, object], thinking: bool | None, opened: str) -> None:
    shown = reply(V32, message, continue_final_message=True, thinking=thinking)
    assert shown == (f"<｜Assistant｜>{opened}", opened)


def test_without_an_answer_the_prompt_ends_with_what_was_said() -> None:
    assert reply(V32, add_generation_prompt=False) == ("", "")
    messages = [user("Hi"), assistant("", call("c", "f", "{}")), result("c", "R")]
    assert text_of(V32, *messages, add_generation_prompt=False).endswith("</result>\n</function_results>")


def test_what_people_typed_never_becomes_a_control_token() -> None:
    tokenizer = deepseek_tokenizer()
    calls = assistant(EVIL, call("c", EVIL, '{"<think>": "<think>", "x": ["｜DSML｜"]}'), reasoning_content=EVIL)
    messages = [{"role": "system", "content": EVIL}, {"role": "developer", "content": EVIL}, calls, result("c", EVIL)]
    pieces = encoded(V32, *messages, tools=(WEATHER,), thinking=True).pieces
    added = set(tokenizer.vocabulary.added.values())
    expected = tokenizer.encode("".join(pieces[1::2]), allow_control=True)
    assert [i for i in tokenizer.encode_written(pieces) if i in added] == [i for i in expected if i in added]
    assert said(pieces).count("<｜User｜>") == 6
