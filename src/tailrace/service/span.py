"""How much text one token can stand for: so a text can be known to be too long before it is cut into tokens.

The bound holds only where every byte of a text is known to end up in a token, so each step of the encoder must be one
that is known here to lose nothing. Where a step is not, there is no bound.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Encoder
from tokenizers import models

from tailrace.service.vocabulary import Spelling, TextEncoders, Vocabulary, byte_pieces

__all__ = ["TokenSpan", "token_span"]

_NON_ASCII = bytes(range(0x80, 0x100))
_FAITHFUL_PRE_TOKENIZERS = frozenset({"ByteLevel", "Digits", "Metaspace", "Split"})
_FAITHFUL_NORMALIZERS = frozenset({"NFC", "Prepend", "Replace"})


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """`max_bytes`: of one token. `uncounted`: bytes that may vanish on the way to tokens."""

    max_bytes: int
    uncounted: bytes

    def least_tokens(self, text: str) -> int:
        num_bytes = len(text.encode("utf-8", "ignore").translate(None, self.uncounted))
        return -(-num_bytes // self.max_bytes)


def token_span(vocabulary: Vocabulary, encoders: TextEncoders) -> TokenSpan | None:
    """None where text may vanish in ways that cannot be counted."""
    normalizers = _steps(encoders.opening.normalizer, "normalizers")
    pre_tokenizers = _steps(encoders.opening.pre_tokenizer, "pretokenizers")
    is_faithful = all(map(_keeps_bytes, normalizers)) and all(map(_keeps_text, pre_tokenizers))
    if not is_faithful or encoders.eats_left or encoders.eats_right:
        return None
    unwritable = _unwritable_bytes(vocabulary.spelling, encoders.opening)
    if unwritable is None:
        return None
    if not any(step["type"] == "NFC" for step in normalizers):
        return TokenSpan(_longest_token(vocabulary), unwritable)
    # Composing may shrink what is not ASCII; an ASCII character stays, or gets marks, and no two become one.
    return None if unwritable else TokenSpan(_longest_token(vocabulary), _NON_ASCII)


def _longest_token(vocabulary: Vocabulary) -> int:
    is_byte_level = vocabulary.spelling is Spelling.BYTE_LEVEL  # a character of a piece is a byte then
    pieces = max(map(len, vocabulary.pieces) if is_byte_level else _sizes(vocabulary.pieces), default=0)
    return max(1, pieces, *_sizes(vocabulary.added))


def _sizes(texts: Iterable[str]) -> Iterable[int]:
    return (len(text.encode()) for text in texts)


def _unwritable_bytes(spelling: Spelling, encoder: Encoder) -> bytes | None:
    """The bytes that make no token, which is silent in a byte-level vocabulary. None: more than these may vanish."""
    if not isinstance(encoder.model, models.BPE):
        return None
    missing = bytes([byte for byte, piece in enumerate(byte_pieces(spelling)) if encoder.token_to_id(piece) is None])
    if spelling is Spelling.SENTENCEPIECE:
        return b"" if encoder.model.byte_fallback and not missing else None
    steps = _steps(encoder.pre_tokenizer, "pretokenizers")
    return missing if any(step["type"] == "ByteLevel" for step in steps) else None


def _keeps_text(step: dict[str, Any]) -> bool:
    return step["type"] in _FAITHFUL_PRE_TOKENIZERS and step.get("behavior") != "Removed"


def _keeps_bytes(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":
        replaced = step["pattern"].get("String")
        return replaced is not None and len(replaced.encode()) <= len(step["content"].encode())
    return step["type"] in _FAITHFUL_NORMALIZERS


def _steps(component: Any, name: str) -> list[dict[str, Any]]:
    """The steps of a component of a tokenizer, each as it is written in tokenizer.json."""
    if component is None:
        return []
    state: dict[str, Any] = json.loads(component.__getstate__())
    if state["type"] != "Sequence":
        return [state]
    steps: list[dict[str, Any]] = state[name]
    return steps
