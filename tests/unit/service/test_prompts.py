"""Prompts of every kind to ids, and what is known of their answers."""

from typing import Any

import pytest

from tailrace.service.api import ALL_TEXT, AnswerForm, ChatPrompt, ModelCard, TextPrompt, Tool
from tailrace.service.formats.deepseek_v31 import DeepSeekV31Encoder
from tailrace.service.formats.format import ChatFormat, ReasoningTags
from tailrace.service.prompts import PromptEncoder, is_long
from tests.support.chats import WEATHER, user
from tests.support.text import byte_level_tokenizer

FORMAT = ChatFormat("deepseek-v3.1", DeepSeekV31Encoder(), ReasoningTags(), "deepseek_v31")


def _prompts() -> PromptEncoder:
    tokenizer = byte_level_tokenizer()
    card = ModelCard("m", (), 0, 100, tokenizer.vocab_size)
    return PromptEncoder(tokenizer, FORMAT, card, max_messages=10)


def test_markup_that_the_vocabulary_lacks_is_text_of_the_format() -> None:
    tokenizer = byte_level_tokenizer()
    encoded = _prompts().encode(ChatPrompt([user("<think>")]))
    added = [i for i in encoded.token_ids if i in tokenizer.vocabulary.added.values()]
    assert added == [tokenizer.vocabulary.added["</think>"]]
    text = "<｜begin▁of▁sentence｜><｜User｜><think><｜Assistant｜></think>"
    assert tokenizer.decode(encoded.token_ids, skip_special_tokens=False) == text
    assert encoded.form == AnswerForm("deepseek-v3.1", "</think>", has_tools=False)


def test_raw_prompts_have_answers_of_text() -> None:
    assert _prompts().encode(TextPrompt("<think>")).form is ALL_TEXT


@pytest.mark.parametrize(
    ("options", "is_it"),
    [
        ({}, False),
        ({"tools": (WEATHER,)}, False),
        ({"tools": (Tool("f", "x" * 1000),)}, True),
        ({"tools": (Tool("f", parameters={"a": [{"b": "x" * 1000}]}),)}, True),
        ({"tools": (Tool("f"),) * 20}, True),
        ({"template_args": {"a": ["x" * 1000]}}, True),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 1000}]}]}, True),
        ({"messages": [user("x")] * 20}, True),
        ({"messages": [{"role": "user", "content": [0] * 200}]}, True),
    ],
)
def test_a_chat_is_long_by_all_that_is_in_it(options: dict[str, Any], is_it: bool) -> None:
    assert is_long(ChatPrompt(**{"messages": [user("Hi")], **options}), 1000) is is_it
