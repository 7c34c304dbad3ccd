"""What the text side gets from a GGUF file."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.checkpoint import Checkpoint, GgufVocabulary
from tailrace.weights.gguf_checkpoint import open_gguf
from tests.unit.weights.model_files import MERGES, TOKENS, write_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def opened(path: Path, **metadata: Any) -> Checkpoint:
    write_gguf(path, metadata={key.replace("__", "."): value for key, value in metadata.items()})
    return open_gguf(path)


def vocabulary(checkpoint: Checkpoint) -> GgufVocabulary:
    assert isinstance(checkpoint.tokenizer, GgufVocabulary)
    return checkpoint.tokenizer


def test_the_vocabulary_is_handed_on_whole(path: Path) -> None:
    found = vocabulary(opened(path, tokenizer__ggml__scores=[0.5] * len(TOKENS)))
    assert (found.model, found.pre) == ("gpt2", "smollm")
    assert list(found.tokens) == TOKENS
    assert list(found.merges) == MERGES
    assert list(found.token_types) == [2, 3, 3, 3, 3] + [1] * 26
    assert list(found.scores) == [0.5] * len(TOKENS)
    assert not found.add_space_prefix


def test_a_vocabulary_may_have_neither_types_nor_merges(path: Path) -> None:
    found = vocabulary(opened(path, tokenizer__ggml__token_type=None, tokenizer__ggml__merges=None))
    assert list(found.token_types) == [1] * len(TOKENS)
    assert list(found.merges) == []


def test_answers_end_at_the_files_ends_and_at_known_turn_ends(path: Path) -> None:
    assert opened(path).eos_ids == (2, 4)
    assert opened(path, tokenizer__ggml__eot_token_id=6, tokenizer__ggml__eom_token_id=7).eos_ids == (2, 6, 7, 4)
    assert opened(path, tokenizer__ggml__eos_token_id=None).eos_ids == (4,)


def test_a_turn_end_that_is_ordinary_text_ends_nothing(path: Path) -> None:
    assert opened(path, tokenizer__ggml__token_type=[2, 3, 3, 3, 1] + [1] * 26).eos_ids == (2,)


def test_special_tokens_reach_the_template_by_name(path: Path) -> None:
    checkpoint = opened(path, tokenizer__ggml__unknown_token_id=0, tokenizer__ggml__padding_token_id=2)
    assert checkpoint.bos_id == 1
    assert checkpoint.special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "</s>",
    }


@pytest.mark.parametrize(
    ("metadata", "adds"),
    [
        ({}, False),
        ({"tokenizer__ggml__model": "llama"}, True),
        ({"tokenizer__ggml__pre": "llama-bpe"}, True),
        ({"tokenizer__ggml__model": "llama", "tokenizer__ggml__add_bos_token": False}, False),
        ({"tokenizer__ggml__add_bos_token": True}, True),
    ],
)
def test_a_prompt_begins_with_bos_where_the_file_or_its_kind_says_so(
    path: Path, metadata: dict[str, Any], adds: bool
) -> None:
    assert opened(path, **metadata).add_bos is adds


def test_a_chat_template_is_optional(path: Path) -> None:
    assert opened(path).chat_template == "{{ messages }}"
    assert opened(path, tokenizer__chat_template=None).chat_template is None


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"tokenizer__ggml__tokens": None}, r"tokenizer\.ggml\.tokens is missing"),
        ({"tokenizer__ggml__tokens": [1, 2]}, r"tokenizer\.ggml\.tokens is missing or no list of strings"),
        ({"tokenizer__ggml__tokens": ["a"] * 49}, "49 tokens for 48 rows of the embedding"),
        ({"tokenizer__ggml__token_type": [1, 1]}, "2 entries of token_type for 31 tokens"),
        ({"tokenizer__ggml__token_type": ["1"] * 31}, r"tokenizer\.ggml\.token_type is no list of numbers"),
        ({"tokenizer__ggml__scores": [0.5]}, "1 entries of scores for 31 tokens"),
        ({"tokenizer__ggml__merges": 7}, r"tokenizer\.ggml\.merges is missing or no list"),
        ({"tokenizer__ggml__model": None}, r"tokenizer\.ggml\.model is missing"),
        ({"tokenizer__ggml__bos_token_id": 31}, "bos_token_id is 31, it must be between 0 and 30"),
        ({"tokenizer__chat_template": 5}, "chat_template is 5, it must be a string"),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_refused(path: Path, metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        opened(path, **metadata)
