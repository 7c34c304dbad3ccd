"""Text to token ids and back, from a tokenizer.json or the vocabulary in a GGUF file.

Text is cut at added tokens here and not in the tokenizers library, because a caller decides for each text whether
markup in it counts: user text is encoded with `allow_control=False`, and then no control token can come out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tokenizers import Tokenizer as Encoder

from tailrace.errors import InvalidRequest
from tailrace.service.gguf_tokenizer import read_gguf_vocabulary
from tailrace.service.json_tokenizer import read_tokenizer_json
from tailrace.service.markup import Guard, Markup
from tailrace.service.span import token_span
from tailrace.service.vocabulary import TextEncoders, Vocabulary
from tailrace.weights.checkpoint import TokenizerSource

__all__ = ["Tokenizer"]

_MAX_UNSHARED_CHARS = 1024  # a quarter of a millisecond, for which waiting threads need not be let in


class Tokenizer:
    """Encodes and decodes. Safe to use from several threads at once."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        encoders: TextEncoders,
        *,
        bos_id: int | None = None,
        eos_ids: Sequence[int] = (),
        add_bos: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self.bos_id = bos_id
        self.eos_ids = tuple(eos_ids)
        self.add_bos = add_bos and bos_id is not None
        self._encoders = encoders
        self._span = token_span(vocabulary, encoders)
        # Single characters and runs of spaces are ways to write text, whoever wrote it.
        textual = {text for text in vocabulary.added if len(text) == 1 or text.isspace()}
        self._textual = Markup(textual) if textual else None
        # Of each text that is a token of its own and counts as markup.
        self.markup_ids = {text: vocabulary.added[text] for text in vocabulary.added.keys() - textual - {""}}
        self._markup = Markup(self.markup_ids.keys())

    @classmethod
    def from_source(
        cls,
        source: TokenizerSource,
        *,
        bos_id: int | None = None,
        eos_ids: Sequence[int] = (),
        add_bos: bool = False,
    ) -> Self:
        """Raises CheckpointError for a damaged file, UnsupportedModel for a kind of tokenizer not known here."""
        read = read_tokenizer_json(source) if isinstance(source, Path) else read_gguf_vocabulary(source)
        return cls(*read, bos_id=bos_id, eos_ids=eos_ids, add_bos=add_bos)

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str, *, allow_control: bool) -> list[int]:
        """Ids of a text. Without `allow_control`, markup in it is ordinary text."""
        return self.encode_pieces(self._markup.split(text) if allow_control else [text])

    def encode_written(self, pieces: Sequence[str]) -> list[int]:
        """Ids of pieces that alternate: said by people, written by a format, ... Markup counts in what is written."""
        runs: list[list[str]] = [[]]
        for place, piece in enumerate(pieces):
            first, *others = self._markup.split(piece) if place % 2 else [piece]
            runs[-1].append(first)
            runs += [[other] for other in others]
        return self.encode_pieces(["".join(run) for run in runs])

    def encode_pieces(self, pieces: Sequence[str]) -> list[int]:
        """Ids of pieces that alternate: text, markup, text, ... Markup in a text is ordinary text."""
        ids: list[int] = []
        for place, piece in enumerate(pieces):
            if place % 2:
                ids.append(self.vocabulary.added[piece])
            elif piece := self._without_eaten(pieces, place):
                ids += self._encode_text(piece, self._encoders.inner if ids else self._encoders.opening)
        return ids

    def least_tokens(self, text: str) -> int:
        """The text has no fewer tokens; 0 where that cannot be told. Far cheaper than encoding it."""
        return 0 if self._span is None else self._span.least_tokens(text)

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

    def _without_eaten(self, pieces: Sequence[str], place: int) -> str:
        text = pieces[place]
        if place > 0 and pieces[place - 1] in self._encoders.eats_right:
            text = text.lstrip()
        if place + 1 < len(pieces) and pieces[place + 1] in self._encoders.eats_left:
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
                ids += _encode_plain(piece, self._encoders.inner if ids else encoder)
        return ids


def _encode_plain(text: str, encoder: Encoder) -> list[int]:
    try:
        if len(text) <= _MAX_UNSHARED_CHARS:
            return encoder.encode(text, add_special_tokens=False).ids
        # Only the batch calls give the interpreter to other threads while they work.
        return encoder.encode_batch_fast([text], add_special_tokens=False)[0].ids
    except TypeError as error:  # the library's word for a string that has no UTF-8
        raise InvalidRequest("the text is not valid Unicode: it holds half of a surrogate pair") from error
