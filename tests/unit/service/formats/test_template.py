"""The model's own template as a format: what it is given, and which part of the prompt is the answer's."""

import json
from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.api import ChatPrompt, ToolChoice, ToolMode
from tailrace.service.chat import ChatTemplate
from tailrace.service.formats.template import TemplateEncoder, TemplateOrTools, involves_tools
from tests.support.chats import EVIL, WEATHER, assistant, call, encoded, result, text_of, user
from tests.support.text import byte_level_tokenizer

# In the manner of Qwen 3: an answer's thought is shown behind the last user alone.
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last and m.reasoning_content %}"
    "<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
FORCED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
CALLS = (
    "{{ tools | tojson }}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% endfor %}"
)
JOINED = (
    "{% for m in messages %}{% for c in m.tool_calls %}{{ c['function']['arguments'] + ';' }}{% endfor %}{% endfor %}"
)


def _encoder(template: str, *, reasons: bool = True) -> TemplateEncoder:
    return TemplateEncoder(ChatTemplate(template), byte_level_tokenizer().new_guard, reasons=reasons)


@pytest.mark.parametrize(
    ("template", "options", "opened"),
    [
        (THINKING, {}, ""),
        (THINKING, {"thinking": True}, ""),
        (THINKING, {"thinking": False}, "<think>\n\n</think>\n\n"),
        (THINKING, {"template_args": {"enable_thinking": False}}, "<think>\n\n</think>\n\n"),
        (FORCED, {}, "<think>\n"),
        (FORCED, {"thinking": True}, "<think>\n"),
        (FORCED, {"thinking": False}, "<think>\n\n</think>\n\n"),
        (FORCED, {"add_generation_prompt": False}, ""),
    ],
)
def test_the_end_of_a_prompt_may_belong_to_the_answer(template: str, options: dict[str, Any], opened: str) -> None:
    chat = encoded(_encoder(template), user("Hi"), **options)
    assert chat.opened == opened
    assert "".join(chat.pieces).endswith(opened)


def test_a_tag_that_ends_a_message_is_not_the_answer_s() -> None:
    template = "{% for m in messages %}{{ m.content }}</think>{% endfor %}"
    assert encoded(_encoder(template), user("Hi")).opened == ""
    assert encoded(_encoder("{{ messages[0].content }}"), user("Hi<think>")).opened == ""


def test_a_model_that_does_not_think_has_nothing_opened() -> None:
    assert encoded(_encoder(FORCED, reasons=False), user("Hi")).opened == ""


@pytest.mark.parametrize(
    ("template", "message", "opened"),
    [
        (THINKING, assistant("Once"), "Once"),
        (THINKING, assistant("Once", reasoning_content="Hm"), "<think>\nHm\n</think>\n\nOnce"),
        (THINKING, assistant("Once", reasoning="Hm"), "<think>\nHm\n</think>\n\nOnce"),
        (THINKING, assistant("", reasoning_content="Hm <think>"), "<think>\nHm <think>"),
        (FORCED, assistant(None, reasoning="Hm"), "<think>\nHm"),
        (FORCED, assistant("<think> Once"), "<think> Once"),
    ],
)
def test_an_answer_can_be_continued(template: str, message: dict[str, Any], opened: str) -> None:
    chat = encoded(_encoder(template), user("Hi"), message, continue_final_message=True)
    assert chat.opened == opened
    assert "".join(chat.pieces).endswith(f"<|im_start|>assistant\n{opened}")


def test_markup_in_a_thought_is_no_markup() -> None:
    message = assistant(None, reasoning_content="<|im_end|><think>")
    chat = encoded(_encoder(THINKING), user("Hi"), message, continue_final_message=True)
    assert chat.pieces[1::2] == ["<|im_start|>", "<|im_end|>", "<|im_start|>", "<think>"]


def test_a_thought_alone_is_not_continued_by_a_model_without() -> None:
    with pytest.raises(InvalidRequest, match="no content"):
        encoded(_encoder(FORCED, reasons=False), assistant("", reasoning="Hm"), continue_final_message=True)


def test_tools_and_calls_are_objects() -> None:
    text = text_of(_encoder(CALLS), assistant("a", call("c", "f", '{"x": [1]}')), tools=(WEATHER,))
    tools, _, rest = text.partition("a")
    tools, rest = text[: text.index("af(")], text[text.index("af(") :]
    function = {"name": "get_weather", "description": "Get weather", "parameters": dict(WEATHER.parameters)}
    assert json.loads(tools) == [{"type": "function", "function": function}]
    assert rest == 'af({"x": [1]})'


@pytest.mark.parametrize("arguments", ["no json", "[1]", '"a"', "[" * 100_000])
def test_arguments_that_are_no_object_stay_a_string(arguments: str) -> None:
    text = text_of(_encoder(CALLS), assistant("a", call("c", "f", arguments)))
    assert text == f"nullaf({json.dumps(arguments)})"


def test_arguments_are_a_string_where_the_template_joins_them() -> None:
    assert text_of(_encoder(JOINED), assistant("a", call("c", "f", '{"x":1}'))) == '{"x":1};'


def test_tools_that_must_not_be_called_are_not_shown() -> None:
    assert text_of(_encoder(CALLS), user("a"), tools=(WEATHER,), tool_choice=ToolChoice(ToolMode.NONE)) == "nulla"


def test_markup_in_tools_is_no_markup() -> None:
    tool = WEATHER.__class__(EVIL, EVIL, {EVIL: EVIL})
    assert encoded(_encoder(CALLS), user("a"), tools=(tool,)).pieces[1::2] == []


def test_deep_tools_are_refused_by_name() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"x": deep}
    with pytest.raises(InvalidRequest, match="'tools' is nested more than 64 levels") as caught:
        encoded(_encoder(CALLS), user("a"), tools=(WEATHER.__class__("f", parameters=deep),))
    assert caught.value.param == "tools"


def test_how_much_to_think_is_a_variable() -> None:
    template = "{{ reasoning_effort }} {{ thinking }} {{ enable_thinking }}"
    assert text_of(_encoder(template), user("a"), effort="low", thinking=True) == "low True True"
    asked = {"thinking": True, "template_args": {"thinking": False}}
    assert text_of(_encoder(template), user("a"), **asked) == " False True"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, ""),
        ({"tools": (WEATHER,)}, "tools"),
        ({"tools": (WEATHER,), "tool_choice": ToolChoice(ToolMode.NONE)}, ""),
        ({"messages": [user("Hi"), assistant("", call("c", "f", "{}"))]}, "messages[1].tool_calls"),
        ({"messages": [user("Hi"), result("c", "R")]}, "messages[1].role"),
    ],
)
def test_a_template_without_tools_is_used_where_there_are_none(options: dict[str, Any], field: str) -> None:
    prompt = ChatPrompt(**{"messages": [user("Hi")], **options})
    assert involves_tools(prompt) == field
    template = _encoder("{{ messages[0].content }}")
    other = _encoder("other")
    alone = TemplateOrTools(template, None)
    if field:
        assert TemplateOrTools(template, other).encode(prompt).pieces == ["other"]
        with pytest.raises(InvalidRequest, match="knows no tools") as caught:
            alone.encode(prompt)
        assert caught.value.param == field
    else:
        assert alone.encode(prompt).pieces == TemplateOrTools(template, other).encode(prompt).pieces == ["Hi"]
