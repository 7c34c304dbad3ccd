"""What the text side needs of GGUF metadata: vocabulary, special tokens, where an answer ends, the chat template."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tailrace.errors import CheckpointError
from tailrace.weights.checkpoint import GgufVocabulary
from tailrace.weights.fields import Fields
from tailrace.weights.gguf import StringArray

__all__ = ["add_bos", "end_ids", "read_vocabulary", "special_tokens", "token_id"]

_CONTROL_TYPES = (3, 4)  # control, user-defined

# Files name one end of sequence, models end their turn in several ways: these do so wherever they are control tokens.
_TURN_ENDS = frozenset(
    {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|EOT|>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
    }
)
_PRE_WITH_BOS = frozenset({"llama-bpe", "llama3", "llama-v3"})  # whose files do not say that a prompt begins with bos


def read_vocabulary(metadata: Fields, vocab_size: int) -> GgufVocabulary:
    """The tokenizer's tables. Raises CheckpointError when they are missing or disagree with each other."""
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    if not 0 < len(tokens) <= vocab_size:
        raise CheckpointError(f"{metadata.source}: {len(tokens)} tokens for {vocab_size} rows of the embedding")
    types = _numbers(metadata, "tokenizer.ggml.token_type", "iu")
    scores = _numbers(metadata, "tokenizer.ggml.scores", "f")
    for key, table in (("token_type", types), ("scores", scores)):
        if table and len(table) != len(tokens):
            raise CheckpointError(f"{metadata.source}: {len(table)} entries of {key} for {len(tokens)} tokens")
    return GgufVocabulary(
        model=metadata.text("tokenizer.ggml.model"),
        pre=metadata.text("tokenizer.ggml.pre", "default"),
        tokens=tokens,
        token_types=types or [1] * len(tokens),
        merges=_strings(metadata, "tokenizer.ggml.merges") if metadata.has("tokenizer.ggml.merges") else (),
        scores=scores,
        add_space_prefix=metadata.flag("tokenizer.ggml.add_space_prefix", False),
        file=metadata.source,
    )


def token_id(metadata: Fields, which: str, vocabulary: GgufVocabulary) -> int | None:
    """The id of the `bos`, `eos`, ... token, if the file names one."""
    key = f"tokenizer.ggml.{which}_token_id"
    return metadata.integer(key, low=0, high=len(vocabulary.tokens) - 1) if metadata.has(key) else None


def end_ids(metadata: Fields, vocabulary: GgufVocabulary) -> tuple[int, ...]:
    """Tokens that end an answer, the file's own first."""
    named = (token_id(metadata, which, vocabulary) for which in ("eos", "eot", "eom"))
    found = [token for token in named if token is not None]
    found += [token for token, text in _control_tokens(vocabulary) if text in _TURN_ENDS]
    return tuple(dict.fromkeys(found))


def special_tokens(metadata: Fields, vocabulary: GgufVocabulary) -> dict[str, str]:
    """bos_token, eos_token, ... as chat templates know them."""
    names = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
    ids = {name: token_id(metadata, which, vocabulary) for which, name in names.items()}
    return {name: vocabulary.tokens[token] for name, token in ids.items() if token is not None}


def add_bos(metadata: Fields, vocabulary: GgufVocabulary) -> bool:
    """Whether a prompt begins with bos; where the file is silent, as its kind of tokenizer does."""
    default = vocabulary.model == "llama" or vocabulary.pre in _PRE_WITH_BOS
    return metadata.flag("tokenizer.ggml.add_bos_token", default)


def _control_tokens(vocabulary: GgufVocabulary) -> Iterator[tuple[int, str]]:
    for token in np.flatnonzero(np.isin(np.asarray(vocabulary.token_types), _CONTROL_TYPES)).tolist():
        yield token, vocabulary.tokens[token]


def _strings(metadata: Fields, key: str) -> Sequence[str]:
    value = metadata.values.get(key)
    if not isinstance(value, StringArray):
        raise CheckpointError(f"{metadata.source}: {key} is missing or no list of strings")
    return value


def _numbers(metadata: Fields, key: str, kinds: str) -> list[Any]:
    value = metadata.values.get(key)
    if value is None:
        return []
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise CheckpointError(f"{metadata.source}: {key} is no list of numbers")
    numbers: list[Any] = value.tolist()
    return numbers
