"""Reads a tokenizer.json: byte-level BPE or SentencePiece, with its added tokens taken out of the encoder's hands."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Encoder

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.service.vocabulary import Spelling, TextEncoders, Vocabulary

__all__ = ["read_tokenizer_json"]

_MAX_PIECES = 1 << 24  # the largest vocabularies have 2^18 tokens


def read_tokenizer_json(path: Path) -> tuple[Vocabulary, TextEncoders]:
    """Raises CheckpointError for a damaged file, UnsupportedModel for a kind of tokenizer not known here."""
    try:
        loaded = Encoder.from_file(str(path))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises nothing more specific; its panics are no Exceptions
        raise CheckpointError(f"{path}: not a readable tokenizer.json: {error}") from error
    added = loaded.get_added_tokens_decoder()
    return _vocabulary_of(loaded, added, path), _encoders_of(loaded, added)


def _encoders_of(loaded: Encoder, added: Mapping[int, AddedToken]) -> TextEncoders:
    plain = _plain_encoder(loaded)
    return TextEncoders(
        opening=plain,
        inner=_inner_encoder(loaded) or plain,
        eats_left=frozenset(token.content for token in added.values() if token.lstrip),
        eats_right=frozenset(token.content for token in added.values() if token.rstrip),
    )


def _plain_encoder(loaded: Encoder) -> Encoder:
    """The same model without its added tokens."""
    encoder = Encoder(loaded.model)
    if loaded.normalizer is not None:
        encoder.normalizer = loaded.normalizer
    if loaded.pre_tokenizer is not None:
        encoder.pre_tokenizer = loaded.pre_tokenizer
    return encoder


def _inner_encoder(loaded: Encoder) -> Encoder | None:
    """The encoder behind an added token, where it differs: SentencePiece may open only the whole text with a space."""
    state = _state(loaded.pre_tokenizer)
    steps = state.get("pretokenizers", [state])
    opening = [step for step in steps if step.get("type") == "Metaspace" and step.get("prepend_scheme") == "first"]
    if not opening:
        return None
    for step in opening:
        step["prepend_scheme"] = "never"
    model = {"type": "BPE", "vocab": {}, "merges": []}
    encoder = Encoder.from_str(json.dumps({"pre_tokenizer": state, "model": model, "added_tokens": []}))
    if loaded.normalizer is not None:
        encoder.normalizer = loaded.normalizer
    encoder.model = loaded.model
    return encoder


def _vocabulary_of(loaded: Encoder, added: Mapping[int, AddedToken], path: Path) -> Vocabulary:
    ids = loaded.get_vocab(with_added_tokens=True)
    num_pieces = max(ids.values(), default=-1) + 1
    if num_pieces > _MAX_PIECES:
        raise CheckpointError(f"{path}: token id {num_pieces - 1}; at most {_MAX_PIECES} tokens are allowed")
    pieces = [""] * num_pieces
    for piece, token_id in ids.items():
        pieces[token_id] = piece
    spelling, strips_leading_space = _spelling(_state(loaded.decoder), path)
    return Vocabulary(
        pieces=pieces,
        spelling=spelling,
        added={token.content: token_id for token_id, token in added.items()},
        control=frozenset(token_id for token_id, token in added.items() if token.special),
        strips_leading_space=strips_leading_space,
    )


def _spelling(decoder: Mapping[str, Any], path: Path) -> tuple[Spelling, bool]:
    """How the vocabulary is written, and whether decoding drops a leading space."""
    steps = decoder.get("decoders", [decoder])
    kinds = {step.get("type") for step in steps}
    if "ByteLevel" in kinds:
        return Spelling.BYTE_LEVEL, False
    if "Metaspace" in kinds:
        return Spelling.SENTENCEPIECE, any(step.get("prepend_scheme", "never") != "never" for step in steps)
    if "Replace" in kinds and kinds & {"ByteFallback", "Fuse"}:
        return Spelling.SENTENCEPIECE, "Strip" in kinds
    raise UnsupportedModel(
        f"{path}: the decoder {decoder.get('type')!r} is not supported; byte-level BPE and SentencePiece tokenizers are"
    )


def _state(component: Any) -> dict[str, Any]:
    """A component of a tokenizer as it is written in tokenizer.json."""
    if component is None:
        return {}
    state: dict[str, Any] = json.loads(component.__getstate__())
    return state
