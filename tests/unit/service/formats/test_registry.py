"""Which format a model is found to speak."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from tailrace.config import ChatFormatName
from tailrace.errors import InvalidRequest, SetupError, UnsupportedModel
from tailrace.service.api import ChatPrompt
from tailrace.service.formats.format import ChatFormat
from tailrace.service.formats.registry import detect_format, named_format
from tests.support.chats import WEATHER, assistant, call, result, user
from tests.support.deepseek import deepseek_tokenizer
from tests.support.text import byte_level_tokenizer

PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
USERS = "{{ bos_token }}{% for m in messages %}<｜User｜>{{ m.content }}<｜Assistant｜>{% endfor %}"
FENCE = "{{ '<｜tool▁sep｜>' + m.name + '\\n```json\\n' }}"
TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"


def _found(template: str | None, **more: Any) -> ChatFormat:
    found = detect_format(template, byte_level_tokenizer(), **more)
    assert found is not None
    return found


def _text(chat_format: ChatFormat, *messages: Any, **options: Any) -> str:
    return "".join(chat_format.encode(ChatPrompt(messages, **options)).pieces)


@pytest.mark.parametrize(
    ("template", "name", "thinks"),
    [
        (USERS + FENCE, "deepseek-v3", False),
        (USERS + FENCE + "{% if '</think>' in m %}{% endif %}", "deepseek-r1-0528", True),
        (USERS + FENCE + "{{ '</think>' }}<｜Assistant｜><think>\\n", "deepseek-r1", True),
        (USERS + "{{ '</think>' }}<｜Assistant｜><think>\\n", "deepseek-r1", True),
        (USERS + "{% if '<think>' in m %}{% endif %}", "deepseek-r1-0528", True),
        (USERS + "<｜tool▁sep｜>{% if thinking %}<think>{% else %}</think>{% endif %}", "deepseek-v3.1", False),
        (USERS + "</think>｜DSML｜function_calls", "deepseek-v3.2", False),
        (USERS + "</think>｜DSML｜tool_calls", "deepseek-v4", True),
        (USERS, "template", False),
        ("User: {{ messages }}\n\nAssistant:", "template", False),
        (PLAIN, "hermes", False),
        (PLAIN + "<think>", "hermes", True),
        (PLAIN + TOOLS + "<tool_call>", "hermes", False),
        (PLAIN + TOOLS + "<tool_call><function=x>", "template", False),
        (PLAIN + TOOLS + "<tool_call>x<arg_key>", "template", False),
        (PLAIN + TOOLS + "<other_call>", "template", False),
        ("<|start_header_id|>" + TOOLS + "<|python_tag|>", "llama3", False),
        ("<|start_header_id|>" + TOOLS + '{"name": "x", "parameters": {}}', "llama3", False),
        ("<|start_header_id|>{{ messages }}<|end_header_id|>", "llama3", False),
        (PLAIN.replace("im_", "x_") + "</think>", "template", True),
    ],
)
def test_a_format_is_recognised_by_its_template(template: str, name: str, thinks: bool) -> None:
    found = _found(template)
    assert (found.name, found.thinks) == (name, thinks)
    assert (found.reasoning is not None) == ("think>" in template)


def test_without_a_template_nothing_is_known() -> None:
    assert detect_format(None, byte_level_tokenizer(), architecture="llama") is None


@pytest.mark.parametrize(
    ("tokens", "architecture", "name"),
    [
        ((), "deepseek_v32", "deepseek-v3.2"),
        (("｜DSML｜",), "deepseek_v3", "deepseek-v3.2"),
        (("｜DSML｜", "<｜latest_reminder｜>"), "", "deepseek-v4"),
    ],
)
def test_models_of_deepseek_that_come_without_a_template_are_known(
    tokens: tuple[str, ...], architecture: str, name: str
) -> None:
    tokenizer = byte_level_tokenizer()
    vocabulary = replace(tokenizer.vocabulary, added={**tokenizer.vocabulary.added, **dict.fromkeys(tokens, 0)})
    tokenizer.vocabulary = vocabulary
    found = detect_format(None, tokenizer, architecture=architecture)
    assert found is not None
    assert (found.name, found.thinks) == (name, name == "deepseek-v4")


def test_the_real_vocabulary_of_deepseek_v4_is_known() -> None:
    found = detect_format(None, deepseek_tokenizer())
    assert found is not None
    assert found.name == "deepseek-v4"


def test_an_unreadable_template_is_a_fault_of_the_model() -> None:
    with pytest.raises(UnsupportedModel):
        _found("{% if %}")


def test_a_chatml_model_without_tools_in_its_template_can_use_them() -> None:
    found = _found("{{ bos_token }}" + PLAIN + "as ever", special_tokens={"bos_token": "<|endoftext|>"})
    assert _text(found, user("Hi")).endswith("as ever")
    with_tools = _text(found, user("Hi"), tools=(WEATHER,))
    assert with_tools.startswith("<|endoftext|><|im_start|>system\n# Tools")
    history = _text(found, user("Hi"), assistant(None, call("c", "f", "{}")), result("c", "R"))
    assert "<tool_response>\nR\n</tool_response>" in history


@pytest.mark.parametrize("line", ["\n", "\\n"])
def test_a_chatml_model_whose_prompts_end_in_a_thought_has_them_with_tools_too(line: str) -> None:
    found = _found("{% for m in messages %}{{ m.content }}{% endfor %}{{ '<|im_start|>assistant" + line + "<think>' }}")
    assert _text(found, user("Hi")).endswith("<|im_start|>assistant\n<think>")
    assert _text(found, user("Hi"), tools=(WEATHER,)).endswith("<|im_start|>assistant\n<think>\n")
    assert _text(_found(PLAIN + "</think>"), user("Hi"), tools=(WEATHER,)).endswith("<|im_start|>assistant\n")


def test_a_llama_3_without_tools_in_its_template_can_use_them() -> None:
    header = "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.content }}{% endfor %}"
    found = _found(header, special_tokens={"bos_token": "<|endoftext|>"})
    assert _text(found, user("Hi")) == "<|endoftext|><|start_header_id|>Hi"
    with_tools = _text(found, user("Hi"), tools=(WEATHER,))
    assert with_tools.startswith("<|endoftext|><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython")
    with pytest.raises(InvalidRequest, match="knows no tools"):
        _text(_found(header + "</think>"), user("Hi"), tools=(WEATHER,))


def test_a_template_that_knows_tools_is_always_used() -> None:
    found = _found(PLAIN + TOOLS + "<tool_call>")
    assert _text(found, user("Hi"), tools=(WEATHER,)).count("get_weather") == 1
    assert "# Tools" not in _text(found, user("Hi"), tools=(WEATHER,))


@pytest.mark.parametrize("template", ["{{ messages }}", PLAIN + TOOLS + "<other_call>"])
def test_tools_are_refused_where_calls_would_not_be_understood(template: str) -> None:
    with pytest.raises(InvalidRequest, match="no markup for calls") as caught:
        _text(_found(template), user("Hi"), tools=(WEATHER,))
    assert caught.value.param == "tools"


def test_results_are_refused_by_a_template_that_knows_none() -> None:
    with pytest.raises(InvalidRequest, match="knows no tools"):
        _text(_found("{{ messages }}"), user("Hi"), assistant("", call("c", "f", "{}")))


def test_a_deepseek_format_does_not_need_its_template() -> None:
    found = _found(USERS + FENCE)
    text = _text(found, user("Hi"), assistant(None, call("c", "f", "{}")), result("c", "R"))
    assert "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>" in text


@pytest.mark.parametrize("name", [name for name in get_args(ChatFormatName) if name not in ("auto", "deepseek-v4")])
def test_a_format_can_be_named_whatever_the_template_says(name: str) -> None:
    chosen = named_format(name, "{{ messages[0].content }}", byte_level_tokenizer(), {})

    assert chosen.name == name
    assert (chosen.reasoning is not None) == name.startswith(("deepseek-r1", "deepseek-v3."))
    assert "hello" in _text(chosen, user("hello"))


def test_the_command_line_and_the_registry_know_the_same_formats() -> None:
    with pytest.raises(SetupError) as refused:
        named_format("x", None, byte_level_tokenizer())
    assert str(refused.value) == f"there is no chat format 'x': name one of {', '.join(get_args(ChatFormatName)[1:])}"


def test_a_template_that_is_not_there_cannot_be_named() -> None:
    with pytest.raises(SetupError, match="no chat template"):
        named_format("template", None, byte_level_tokenizer())
