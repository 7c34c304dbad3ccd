"""What the text side gets from a Hugging Face directory."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.fields import Fields
from tailrace.weights.hf_text import HuggingFaceText, read_text
from tests.unit.weights.model_files import tokenizer_json

NAMED = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]


def text_of(directory: Path, config: dict[str, Any] | None = None, **files: Any) -> HuggingFaceText:
    """`files` by stem: tokenizer_config={...} is tokenizer_config.json; a string is a .jinja file."""
    files = {"tokenizer": tokenizer_json()} | files
    for stem, content in files.items():
        name, text = (f"{stem}.jinja", content) if isinstance(content, str) else (f"{stem}.json", json.dumps(content))
        (directory / name).write_text(text, encoding="utf-8")
    return read_text(directory, Fields("config.json", config or {}), vocab_size=48)


def test_a_bare_directory_has_ids_from_its_config(tmp_path: Path) -> None:
    found = text_of(tmp_path, {"bos_token_id": 1, "eos_token_id": 2})
    assert found == HuggingFaceText(chat_template=None, bos_id=1, eos_ids=(2,), add_bos=False, special_tokens={})


def test_answers_end_at_the_generation_configs_ends_then_the_configs_then_the_tokenizers(tmp_path: Path) -> None:
    found = text_of(
        tmp_path,
        {"eos_token_id": 2},
        generation_config={"eos_token_id": [7, 2]},
        tokenizer_config={"eos_token": "<|im_end|>"},
    )
    assert found.eos_ids == (7, 2, 4)


def test_a_model_may_name_no_special_token(tmp_path: Path) -> None:
    found = text_of(tmp_path, {"eos_token_id": None})
    assert (found.bos_id, found.eos_ids) == (None, ())


def test_ids_without_a_row_in_the_embedding_are_passed_over(tmp_path: Path) -> None:
    found = text_of(tmp_path, {"bos_token_id": 48, "eos_token_id": [48, 47]}, generation_config={"bos_token_id": 3})
    assert (found.bos_id, found.eos_ids) == (3, (47,))


def test_special_tokens_are_strings_or_tables(tmp_path: Path) -> None:
    settings = {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "</s>", "unk_token": None}
    found = text_of(tmp_path, {"bos_token_id": 3}, tokenizer_config=settings)
    assert found.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}
    assert found.bos_id == 1


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({}, None),
        ({"tokenizer_config": {"chat_template": "C"}}, "C"),
        ({"tokenizer_config": {"chat_template": NAMED}}, "D"),
        ({"tokenizer_config": {"chat_template": NAMED[:1]}}, None),
        ({"tokenizer_config": {"chat_template": "C"}, "chat_template": {"chat_template": "J"}}, "J"),
        ({"tokenizer_config": {"chat_template": "C"}, "chat_template": "F"}, "F"),
    ],
)
def test_the_chat_template_lies_in_one_of_three_places(
    tmp_path: Path, files: dict[str, Any], template: str | None
) -> None:
    assert text_of(tmp_path, **files).chat_template == template


def processor(*pieces: dict[str, Any]) -> dict[str, Any]:
    return tokenizer_json() | {"post_processor": {"type": "TemplateProcessing", "single": list(pieces)}}


BOS, TEXT = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
IN_SEQUENCE = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, processor(BOS, TEXT)["post_processor"]]}


@pytest.mark.parametrize(
    ("tokenizer", "settings", "adds"),
    [
        (tokenizer_json(), {}, False),
        (tokenizer_json(), {"add_bos_token": True}, True),
        (processor(BOS, TEXT), {}, True),
        (processor(BOS, TEXT), {"add_bos_token": False}, False),
        (processor(TEXT, BOS), {}, False),
        (processor({"SpecialToken": {"id": "[CLS]"}}, TEXT), {}, False),
        (tokenizer_json() | {"post_processor": IN_SEQUENCE}, {}, True),
        (tokenizer_json() | {"post_processor": {"type": "ByteLevel"}}, {}, False),
    ],
)
def test_a_prompt_begins_with_bos_where_the_settings_or_the_tokenizer_say_so(
    tmp_path: Path, tokenizer: dict[str, Any], settings: dict[str, Any], adds: bool
) -> None:
    found = text_of(tmp_path, tokenizer=tokenizer, tokenizer_config={"bos_token": "<s>"} | settings)
    assert found.add_bos is adds


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"generation_config": {"eos_token_id": "2"}}, "eos_token_id is '2', it must be a token id or a list"),
        ({"generation_config": {"eos_token_id": [True]}}, "eos_token_id is .*it must be a token id"),
        ({"generation_config": {"eos_token_id": -1}}, "eos_token_id is -1"),
        ({"tokenizer_config": {"chat_template": 5}}, "chat_template is 5, it must be a string or a list"),
        ({"tokenizer_config": {"add_bos_token": "no"}}, "add_bos_token is 'no', it must be true or false"),
        ({"tokenizer_config": [1]}, r"tokenizer_config\.json: damaged"),
        ({"tokenizer": {"added_tokens": 5}}, r"tokenizer\.json: damaged"),
    ],
)
def test_settings_that_are_no_settings_are_refused(tmp_path: Path, files: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        text_of(tmp_path, **files)


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=r"chat_template\.jinja: cannot be read"):
        text_of(tmp_path)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: cannot be read: No such file"):
        read_text(tmp_path, Fields("config.json", {}), vocab_size=48)
