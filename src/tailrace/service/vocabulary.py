"""What each token stands for: its exact bytes, and whether it is hidden. Does not know how text is cut."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tokenizers import Tokenizer as Encoder

__all__ = ["Spelling", "TextEncoders", "Vocabulary", "byte_pieces"]

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Spelling(StrEnum):
    """How a vocabulary writes bytes as characters."""

    BYTE_LEVEL = "byte_level"  # one printable character a byte, as GPT-2 does
    SENTENCEPIECE = "sentencepiece"  # plain text, U+2581 for a space, <0xNN> for a single byte


def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes are numbered from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()


def byte_pieces(spelling: Spelling) -> list[str]:
    """How a vocabulary writes each of the 256 bytes alone."""
    if spelling is Spelling.SENTENCEPIECE:
        return [f"<0x{byte:02X}>" for byte in range(256)]
    return sorted(_BYTE_OF_CHARACTER, key=_BYTE_OF_CHARACTER.__getitem__)


def _byte_level_bytes(piece: str) -> bytes:
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in piece])
    except KeyError:  # not spelled in the alphabet, so it stands for itself
        return piece.encode()


def _sentencepiece_bytes(piece: str) -> bytes:
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else piece.replace("\u2581", " ").encode()


@dataclass(frozen=True)
class Vocabulary:
    """Token ids and what they stand for.

    `added` are the tokens that are found in text before it is cut into words; their strings are literal.
    `control` are those that `skip_special_tokens` hides.
    """

    pieces: Sequence[str]
    spelling: Spelling
    added: Mapping[str, int]
    control: frozenset[int]
    strips_leading_space: bool = False  # the first token of a text carries a space that the text does not have
    _bytes: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.pieces)

    def is_control(self, token_id: int) -> bool:
        return token_id in self.control

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a token adds to a text; none for an id outside the vocabulary (models pad their output layer)."""
        known = self._bytes.get(token_id)
        return self._spell(token_id) if known is None else known

    def token_text(self, token_id: int) -> str:
        """The token alone as text: U+FFFD where it holds a part of a character."""
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def decode(self, token_ids: Iterable[int], *, skip_special_tokens: bool) -> str:
        """The text of a whole sequence of ids."""
        hidden = self.control if skip_special_tokens else frozenset[int]()
        text = b"".join([self.token_bytes(i) for i in token_ids if i not in hidden]).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.strips_leading_space else text

    def _spell(self, token_id: int) -> bytes:
        if not 0 <= token_id < len(self.pieces):
            return b""
        piece = self.pieces[token_id]
        if self.added.get(piece) == token_id:
            spelled = piece.encode()
        elif self.spelling is Spelling.BYTE_LEVEL:
            spelled = _byte_level_bytes(piece)
        else:
            spelled = _sentencepiece_bytes(piece)
        self._bytes[token_id] = spelled
        return spelled


@dataclass(frozen=True, slots=True)
class TextEncoders:
    """Cut text without markup into ordinary tokens: the start of a text, and what follows an added token.

    The two differ where a vocabulary puts a space before the first word only. `eats_left` and `eats_right` are added
    tokens that take the spaces beside them.
    """

    opening: Encoder
    inner: Encoder
    eats_left: frozenset[str] = frozenset()
    eats_right: frozenset[str] = frozenset()
