"""What the text side needs of a Hugging Face directory: special tokens, where an answer ends, the chat template."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tailrace.errors import CheckpointError
from tailrace.weights.fields import Fields
from tailrace.weights.settings_file import is_there, read_settings_file

__all__ = ["HuggingFaceText", "read_json", "read_text"]

_MAX_TOKENIZER_BYTES = 1 << 28
_MAX_JSON_BYTES = 1 << 25  # DeepSeek V3's index of 91 thousand tensors has 9 MB
_MAX_TEMPLATE_BYTES = 1 << 24
_T = TypeVar("_T")
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


class _AddedToken(msgspec.Struct):
    id: int
    content: str


class _Template(msgspec.Struct):
    """The `single` of a post-processor: what is put around a text."""

    single: list[dict[str, Any]] = []
    processors: list["_Template"] = []


class _Tokenizer(msgspec.Struct):
    """The small part of tokenizer.json that is read here; the rest is skipped unparsed."""

    added_tokens: list[_AddedToken] = []
    post_processor: _Template | None = None


class HuggingFaceText(msgspec.Struct, frozen=True):
    """The text settings of a directory, as a checkpoint wants them."""

    chat_template: str | None
    bos_id: int | None
    eos_ids: tuple[int, ...]
    add_bos: bool
    special_tokens: Mapping[str, str]


def read_json(path: Path) -> Fields:
    """A JSON file that must hold a table. Raises CheckpointError."""
    return Fields(str(path), _decode(path, dict[str, Any], _MAX_JSON_BYTES))


def read_text(directory: Path, config: Fields, vocab_size: int) -> HuggingFaceText:
    """Gather the text settings that lie over tokenizer.json, tokenizer_config.json and generation_config.json.

    Ids from `vocab_size` on have no row in the embedding: they can neither begin a prompt nor end an answer.
    """
    settings = _optional(directory / "tokenizer_config.json")
    generation = _optional(directory / "generation_config.json")
    tokenizer = _decode(directory / "tokenizer.json", _Tokenizer, _MAX_TOKENIZER_BYTES)
    ids = {token.content: token.id for token in tokenizer.added_tokens}
    special = _special_tokens(settings)
    begins = [*_ids(config, "bos_token_id"), *_ids(generation, "bos_token_id")]
    if (begin := ids.get(special.get("bos_token", ""))) is not None:
        begins.insert(0, begin)
    ends = [*_ids(generation, "eos_token_id"), *_ids(config, "eos_token_id")]
    if (end := ids.get(special.get("eos_token", ""))) is not None:
        ends.append(end)
    return HuggingFaceText(
        chat_template=_chat_template(directory, settings),
        bos_id=next((token for token in begins if token < vocab_size), None),
        eos_ids=tuple(dict.fromkeys(token for token in ends if token < vocab_size)),
        add_bos=_add_bos(settings, tokenizer.post_processor, special.get("bos_token")),
        special_tokens=special,
    )


def _decode(path: Path, kind: type[_T], max_bytes: int) -> _T:
    try:
        return msgspec.json.decode(read_settings_file(path, max_bytes), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: {error}") from error


def _optional(path: Path) -> Fields:
    return read_json(path) if is_there(path) else Fields(str(path), {})


def _special_tokens(settings: Fields) -> dict[str, str]:
    """Written as a string, or as a table with `content`."""
    found = {}
    for name in _SPECIAL:
        value = settings.values.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def _ids(fields: Fields, key: str) -> list[int]:
    """One id, several, or none."""
    value = fields.values.get(key)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(token, bool) or not isinstance(token, int) or token < 0 for token in ids):
        raise fields.wrong(key, "a token id or a list of them")
    return ids


def _chat_template(directory: Path, settings: Fields) -> str | None:
    """A file of its own wins over the settings."""
    plain, table = directory / "chat_template.jinja", directory / "chat_template.json"
    if is_there(plain):
        return _template_file(plain)
    value = read_json(table).values.get("chat_template") if is_there(table) else settings.values.get("chat_template")
    if isinstance(value, list):  # several templates by name
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default")
    if value is not None and not isinstance(value, str):
        raise settings.wrong("chat_template", "a string or a list of named templates")
    return value


def _template_file(path: Path) -> str:
    try:
        return read_settings_file(path, _MAX_TEMPLATE_BYTES).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error


def _add_bos(settings: Fields, post_processor: _Template | None, bos: str | None) -> bool:
    """What the settings say, else whether tokenizer.json puts bos in front of a text."""
    if settings.has("add_bos_token"):
        return settings.flag("add_bos_token")
    if post_processor is None or bos is None:
        return False
    templates = [post_processor, *post_processor.processors]
    first = next((template.single[0] for template in templates if template.single), {})
    special = first.get("SpecialToken")
    return isinstance(special, dict) and special.get("id") == bos
