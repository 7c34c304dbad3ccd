"""How few tokens a text can have, told from its length: never more than it has, and nothing where text may vanish."""

from dataclasses import replace

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers

from tailrace.service.gguf_tokenizer import read_gguf_vocabulary
from tailrace.service.span import TokenSpan, token_span
from tailrace.service.vocabulary import TextEncoders
from tests.support.text import byte_level_vocabulary, sentencepiece_vocabulary

LONGEST = len("<|endoftext|>")


def _span_without(piece: str) -> TokenSpan | None:
    """Of a byte-level vocabulary that lacks one of the bytes."""
    source = byte_level_vocabulary()
    tokens = [token if token != piece else "xyz" for token in source.tokens]
    return token_span(*read_gguf_vocabulary(replace(source, tokens=tokens)))


def _changed(**parts: object) -> TextEncoders:
    _, encoders = read_gguf_vocabulary(byte_level_vocabulary("gpt-2"))
    for name, part in parts.items():
        setattr(encoders.opening, name, part)
    return encoders


def test_the_longest_token_sets_the_bound() -> None:
    span = token_span(*read_gguf_vocabulary(byte_level_vocabulary()))
    assert span is not None
    assert span.least_tokens("") == 0
    assert span.least_tokens("x" * LONGEST) == 1
    assert span.least_tokens("x" * (LONGEST + 1)) == 2
    assert span.least_tokens("\ud800") == 0


def test_sentencepiece_counts_characters_in_bytes() -> None:
    span = token_span(*read_gguf_vocabulary(sentencepiece_vocabulary()))
    assert span is not None
    assert span.least_tokens("中" * 100) >= 300 // len("▁hello".encode())


def test_a_character_that_has_no_token_does_not_count() -> None:
    span = _span_without("z")
    assert span is not None
    assert span.least_tokens("z" * 1000) == 0
    assert span.least_tokens("y" * 1000) > 0


def test_characters_that_may_be_composed_do_not_count() -> None:
    span = token_span(*read_gguf_vocabulary(byte_level_vocabulary("qwen2")))
    assert span is not None
    assert span.least_tokens("\u1fef" * 1000) == 0  # composed to one byte each
    assert span.least_tokens("a" * LONGEST * 2) == 2


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": normalizers.Strip()},
        {"normalizer": normalizers.Replace("  ", " ")},
        {"normalizer": normalizers.Replace(Regex(" +"), " ")},
        {"pre_tokenizer": pre_tokenizers.Whitespace()},
        {"pre_tokenizer": pre_tokenizers.Digits()},  # its text is never spelled in bytes
        {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            )
        },
    ],
)
def test_there_is_no_bound_where_text_may_vanish(parts: dict[str, object]) -> None:
    vocabulary, _ = read_gguf_vocabulary(byte_level_vocabulary("gpt-2"))
    assert token_span(vocabulary, _changed()) is not None
    assert token_span(vocabulary, _changed(**parts)) is None


def test_there_is_no_bound_where_markup_takes_spaces_away() -> None:
    vocabulary, encoders = read_gguf_vocabulary(byte_level_vocabulary())
    assert token_span(vocabulary, replace(encoders, eats_right=frozenset({"<think>"}))) is None


def test_there_is_no_bound_where_unknown_characters_are_left_out() -> None:
    vocabulary, encoders = read_gguf_vocabulary(sentencepiece_vocabulary())
    encoders.opening.model.byte_fallback = False
    assert token_span(vocabulary, encoders) is None
