"""Tokens to text one at a time: whole characters at once, split ones when they are complete."""

import pytest

from tailrace.service.detokenize import Detokenizer, TokenTexts
from tailrace.service.tokenizer import Tokenizer
from tests.support.text import byte_level_tokenizer, sentencepiece_tokenizer


def _feed_all(tokenizer: Tokenizer, ids: list[int], *, at_start: bool = False, skip: bool = True) -> list[str]:
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=skip)
    detokenizer = Detokenizer(texts, at_start=at_start)
    return [*(detokenizer.feed(i) for i in ids), detokenizer.finish()]


def _ids(tokenizer: Tokenizer, *raws: bytes) -> list[int]:
    by_bytes = {tokenizer.token_bytes(i): i for i in reversed(range(tokenizer.vocab_size))}
    return [by_bytes[raw] for raw in raws]


def test_a_split_character_comes_when_it_is_complete() -> None:
    tokenizer = byte_level_tokenizer()
    ids = _ids(tokenizer, b"hello", b"\xf0\x9f", b"\x98", b"\x80!", b"h")
    assert _feed_all(tokenizer, ids) == ["hello", "", "", "😀!", "h", ""]


def test_an_unfinished_character_at_the_end_becomes_a_replacement() -> None:
    tokenizer = byte_level_tokenizer()
    assert _feed_all(tokenizer, _ids(tokenizer, b"h", b"\xf0\x9f\x98")) == ["h", "", "\ufffd"]


def test_bytes_that_cannot_continue_are_replaced_at_once() -> None:
    tokenizer = byte_level_tokenizer()
    assert _feed_all(tokenizer, _ids(tokenizer, b"\xf0\x9f", b"h", b"\x98")) == ["", "\ufffdh", "\ufffd", ""]


def test_nothing_is_replaced_while_bytes_can_continue() -> None:
    tokenizer = byte_level_tokenizer()
    assert _feed_all(tokenizer, _ids(tokenizer, b" \xf0\x9f", b"\x98\x80")) == [" ", "😀", ""]


def test_control_tokens_are_hidden_or_shown() -> None:
    tokenizer = byte_level_tokenizer()
    ids = [1, *_ids(tokenizer, b"hello"), 2]
    assert _feed_all(tokenizer, ids) == ["", "hello", "", ""]
    assert _feed_all(tokenizer, ids, skip=False) == ["<|im_start|>", "hello", "<|im_end|>", ""]


def test_a_hidden_token_does_not_break_a_character() -> None:
    tokenizer = byte_level_tokenizer()
    first, last = _ids(tokenizer, b"\xf0\x9f", b"\x98\x80")
    assert "".join(_feed_all(tokenizer, [first, 2, last])) == "😀"


def test_the_first_word_of_a_text_loses_the_space_of_its_token() -> None:
    tokenizer = sentencepiece_tokenizer()
    ids = tokenizer.encode("hello world", allow_control=False)
    assert _feed_all(tokenizer, ids, at_start=True) == ["hello", " world", ""]


def test_an_answer_that_goes_on_keeps_its_first_space() -> None:
    tokenizer = sentencepiece_tokenizer()
    ids = tokenizer.encode("hello world", allow_control=False)
    assert _feed_all(tokenizer, ids) == [" hello", " world", ""]


def test_the_first_space_is_looked_for_behind_hidden_tokens() -> None:
    tokenizer = sentencepiece_tokenizer()
    ids = [1, *tokenizer.encode("hello", allow_control=False), *tokenizer.encode(" w", allow_control=False)]
    assert "".join(_feed_all(tokenizer, ids, at_start=True)) == tokenizer.decode(ids) == "hello  w"


def test_byte_tokens_of_sentencepiece_join_to_a_character() -> None:
    tokenizer = sentencepiece_tokenizer(add_space_prefix=False)
    ids = tokenizer.encode("h😀", allow_control=False)
    assert _feed_all(tokenizer, ids) == ["h", "", "", "", "😀", ""]


@pytest.mark.parametrize("outside", [-1, 10**6])
def test_an_id_outside_the_vocabulary_has_no_text(outside: int) -> None:
    tokenizer = byte_level_tokenizer()
    assert _feed_all(tokenizer, [outside, *_ids(tokenizer, b"h")]) == ["", "h", ""]


@pytest.mark.parametrize("lead", [0xC3, 0xE0, 0xE4, 0xED, 0xEF, 0xF0, 0xF4])
def test_whatever_breaks_a_character_off_it_is_known_how_many_characters_its_bytes_are(lead: int) -> None:
    """Of every beginning that a decoder waits on, and every byte behind it: where the byte's own text begins."""
    tokenizer = byte_level_tokenizer()
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=True)
    single = [_ids(tokenizer, bytes([byte]))[0] for byte in range(256)]
    begun = [bytes([lead]), *(bytes([lead, second]) for second in range(0x80, 0xC0))]
    for pending in begun:
        for byte in range(256):
            detokenizer = Detokenizer(texts)
            out = "".join(detokenizer.feed(single[each]) for each in pending)
            detokenizer.feed(single[byte])
            assert len(out) + detokenizer.num_broken_off == _place(pending, byte), (pending, byte)


def _place(before: bytes, byte: int) -> int:
    """Characters in front of the byte; one that it goes on with is not in front of it."""
    alone, together = before.decode("utf-8", "replace"), (before + bytes([byte])).decode("utf-8", "replace")
    goes_on = alone + bytes([byte]).decode("utf-8", "replace") != together
    return len(alone) - goes_on


def test_tokens_of_markup_are_not_hidden() -> None:
    tokenizer = byte_level_tokenizer()
    start, end = (tokenizer.vocabulary.added[token] for token in ("<|im_start|>", "<|im_end|>"))
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=True, markup=("a <|im_start|>",))
    assert (texts.text(start), texts.text(end)) == ("<|im_start|>", "")
