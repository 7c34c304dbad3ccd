"""Any text to ids and back, and chats in which people type markup."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.service.api import ChatPrompt
from tailrace.service.chat import ChatTemplate
from tailrace.service.markup import GuardedText
from tailrace.service.tokenizer import Tokenizer
from tests.support.text import MARKUP, byte_level_tokenizer, sentencepiece_tokenizer

TEXT = st.text(max_size=60) | st.lists(
    st.sampled_from([*MARKUP, "<|", "|>", "im_end", "<", " ", "\n", "é", "😀", "中", "1"]), max_size=12
).map("".join)
BYTE_LEVEL = {
    pre: byte_level_tokenizer(pre)
    for pre in ("gpt-2", "smollm", "llama-bpe", "deepseek-llm", "deepseek-coder", "deepseek-v3")
}
CHAT = ChatTemplate(
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }}"
    "{{ (m.content | trim).split('</think>')[-1] }}{{ '<|im_end|>\n' }}{% endfor %}<think>"
)


@pytest.mark.parametrize("pre", BYTE_LEVEL)
@settings(max_examples=50)
@given(TEXT)
@example(" " * 300 + "😀")
def test_byte_level_text_survives_without_any_markup(pre: str, text: str) -> None:
    tokenizer = BYTE_LEVEL[pre]
    ids = tokenizer.encode(text, allow_control=False)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert not set(ids) & set(tokenizer.vocabulary.added.values())


@pytest.mark.parametrize("add_space_prefix", [True, False])
@settings(max_examples=50)
@given(TEXT)
def test_sentencepiece_text_survives_without_any_markup(add_space_prefix: bool, text: str) -> None:
    tokenizer = sentencepiece_tokenizer(add_space_prefix=add_space_prefix)
    ids = tokenizer.encode(text, allow_control=False)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text.replace("\u2581", " ")
    assert not set(ids) & set(tokenizer.vocabulary.added.values())


SENTENCEPIECE = {prefix: sentencepiece_tokenizer(add_space_prefix=prefix) for prefix in (True, False)}
COMPOSING = byte_level_tokenizer("qwen2")


@settings(max_examples=200)
@given(
    st.sampled_from([*BYTE_LEVEL.values(), *SENTENCEPIECE.values(), COMPOSING]),
    st.lists(TEXT | st.sampled_from(["<|endoftext|>", "\u212b\u0327", "\u1fef", "e\u0301"]), max_size=6).map("".join),
    st.booleans(),
)
def test_a_text_has_at_least_the_tokens_that_are_said_without_encoding_it(
    tokenizer: Tokenizer, text: str, allow_control: bool
) -> None:
    assert tokenizer.least_tokens(text) <= len(tokenizer.encode(text, allow_control=allow_control))


@settings(max_examples=200)
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_markup_in_a_chat_is_the_template_s_and_text_is_the_people_s(contents: list[str]) -> None:
    tokenizer = BYTE_LEVEL["smollm"]
    guard = tokenizer.new_guard()
    messages = [{"role": "user", "content": content} for content in contents]
    ids = tokenizer.encode_written(guard.cut(CHAT.render(ChatPrompt(messages), guard)))
    markup = tokenizer.vocabulary.added
    expected = [markup["<|im_start|>"], markup["<|im_end|>"]] * len(contents) + [markup["<think>"]]
    assert [i for i in ids if i in markup.values()] == expected
    shown = [content.strip().split("</think>")[-1] for content in contents]
    text = "".join(f"<|im_start|>user\n{content}<|im_end|>\n" for content in shown) + "<think>"
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@settings(max_examples=200)
@given(TEXT, TEXT, st.sampled_from(["<", "im", "</think>", "|>", " "]))
def test_guarded_text_behaves_like_the_text_it_guards(text: str, other: str, part: str) -> None:
    guard = BYTE_LEVEL["smollm"].new_guard()
    guarded = guard.protect_text(text)
    assert isinstance(guarded, GuardedText) is ("<" in text)
    assert (guarded == text, len(guarded), part in guarded) == (True, len(text), part in text)
    assert guarded.split(part) == text.split(part)
    assert guarded.replace(part, other) == text.replace(part, other)
    assert guarded.strip() == text.strip()
    assert guard.release("".join([guarded])) == text
