"""Text to token ids and back, from a tokenizer.json or the vocabulary in a GGUF file.

Text is cut at added tokens here and not in the tokenizers library, because a caller decides for each text whether
markup in it counts: user text is encoded with `allow_control=False`, and then no control token can come out.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Encoder

from tailrace.errors import CheckpointError, InvalidRequest, UnsupportedModel
from tailrace.service import gguf_vocabulary
from tailrace.service.markup import Guard, Markup
from tailrace.service.vocabulary import Spelling, Vocabulary
from tailrace.weights.checkpoint import TokenizerSource

__all__ = ["Tokenizer"]


class Tokenizer:
    """Encodes and decodes. Safe to use from several threads at once.

    `opening` encodes the start of a text and `inner` what follows an added token: some vocabularies put a space
    before the first word only. `eats_left` and `eats_right` are added tokens that take the spaces beside them.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        opening: Encoder,
        inner: Encoder | None = None,
        *,
        eats_left: Collection[str] = (),
        eats_right: Collection[str] = (),
        bos_id: int | None = None,
        eos_ids: Sequence[int] = (),
        add_bos: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self.bos_id = bos_id
        self.eos_ids = tuple(eos_ids)
        self.add_bos = add_bos and bos_id is not None
        self._opening = opening
        self._inner = inner or opening
        self._eats_left = frozenset(eats_left)
        self._eats_right = frozenset(eats_right)
        # Single characters and runs of spaces are ways to write text, whoever wrote it.
        textual = {text for text in vocabulary.added if len(text) == 1 or text.isspace()}
        self._textual = Markup(textual) if textual else None
        self._markup = Markup(vocabulary.added.keys() - textual - {""})

    @classmethod
    def from_source(
        cls,
        source: TokenizerSource,
        *,
        bos_id: int | None = None,
        eos_ids: Sequence[int] = (),
        add_bos: bool = False,
    ) -> "Tokenizer":
        """Raises CheckpointError for a damaged file, UnsupportedModel for a kind of tokenizer not known here."""
        if isinstance(source, Path):
            return _from_file(source, bos_id=bos_id, eos_ids=eos_ids, add_bos=add_bos)
        vocabulary = gguf_vocabulary.read_vocabulary(source)
        encoder = gguf_vocabulary.build_encoder(source)
        return cls(vocabulary, encoder, bos_id=bos_id, eos_ids=eos_ids, add_bos=add_bos)

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str, *, allow_control: bool) -> list[int]:
        """Ids of a text. Without `allow_control`, markup in it is ordinary text."""
        return self._encode_pieces(self._markup.split(text) if allow_control else [text])

    def encode_guarded(self, text: str, guard: Guard) -> list[int]:
        """Ids of a rendered prompt: markup counts where the template wrote it, and not inside protected text."""
        pieces = self._markup.split(text)
        pieces[::2] = map(guard.release, pieces[::2])
        return self._encode_pieces(pieces)

    def new_guard(self) -> Guard:
        """Protects the message text of one prompt from being taken for this vocabulary's markup."""
        return Guard(self._markup)

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self.vocabulary.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def token_text(self, token_id: int) -> str:
        return self.vocabulary.token_text(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return self.vocabulary.token_bytes(token_id)

    def is_control(self, token_id: int) -> bool:
        return self.vocabulary.is_control(token_id)

    def _encode_pieces(self, pieces: list[str]) -> list[int]:
        """`pieces` alternate: text, markup, text, ..."""
        ids: list[int] = []
        for place, piece in enumerate(pieces):
            if place % 2:
                ids.append(self.vocabulary.added[piece])
            elif piece := self._without_eaten(pieces, place):
                ids += self._encode_text(piece, self._inner if ids else self._opening)
        return ids

    def _without_eaten(self, pieces: list[str], place: int) -> str:
        text = pieces[place]
        if place > 0 and pieces[place - 1] in self._eats_right:
            text = text.lstrip()
        if place + 1 < len(pieces) and pieces[place + 1] in self._eats_left:
            text = text.rstrip()
        return text

    def _encode_text(self, text: str, encoder: Encoder) -> list[int]:
        if self._textual is None:
            return _encode_plain(text, encoder)
        ids: list[int] = []
        for place, piece in enumerate(self._textual.split(text)):
            if place % 2:
                ids.append(self.vocabulary.added[piece])
            elif piece:
                ids += _encode_plain(piece, self._inner if ids else encoder)
        return ids


def _encode_plain(text: str, encoder: Encoder) -> list[int]:
    try:
        return encoder.encode(text, add_special_tokens=False).ids
    except TypeError as error:  # the library's word for a string that has no UTF-8
        raise InvalidRequest("the text is not valid Unicode: it holds half of a surrogate pair") from error


def _from_file(path: Path, **special: Any) -> Tokenizer:
    try:
        loaded = Encoder.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise CheckpointError(f"{path}: not a readable tokenizer.json: {error}") from error
    added = loaded.get_added_tokens_decoder()
    return Tokenizer(
        _vocabulary_of(loaded, added, path),
        _plain_encoder(loaded),
        _inner_encoder(loaded),
        eats_left={token.content for token in added.values() if token.lstrip},
        eats_right={token.content for token in added.values() if token.rstrip},
        **special,
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
    pieces = [""] * (max(ids.values(), default=-1) + 1)
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
