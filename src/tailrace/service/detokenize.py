"""Token ids to text, one at a time, byte exact: what is given out together is what decoding the whole gives."""

from codecs import utf_8_decode
from collections.abc import Iterable

from tailrace.service.vocabulary import Vocabulary

__all__ = ["Detokenizer", "TokenTexts"]


class TokenTexts:
    """The text of each token that is whole characters, and None for one that is not. Shared by all streams.

    With `skip_special_tokens` control tokens have none, but those of which `markup` is made: what takes an answer apart
    has to see it.
    """

    def __init__(self, vocabulary: Vocabulary, *, skip_special_tokens: bool, markup: Iterable[str] = ()) -> None:
        self.vocabulary = vocabulary
        self._hidden = _hidden_tokens(vocabulary, "\0".join(markup)) if skip_special_tokens else frozenset[int]()
        self._texts: dict[int, str | None] = {}

    def raw(self, token_id: int) -> bytes:
        return b"" if token_id in self._hidden else self.vocabulary.token_bytes(token_id)

    def text(self, token_id: int) -> str | None:
        try:
            return self._texts[token_id]
        except KeyError:
            return self._learn(token_id)

    def _learn(self, token_id: int) -> str | None:
        raw = self.raw(token_id)
        text = raw.decode("utf-8", "ignore")
        known = text if text.encode() == raw else None
        if 0 <= token_id < len(self.vocabulary):
            self._texts[token_id] = known
        return known


class Detokenizer:
    """The text of one sequence. Bytes of an unfinished character wait until it is complete or cannot be.

    `at_start` says that no text comes before this sequence: then the leading space that some vocabularies put on the
    first word is dropped. `num_broken_off` is how many characters of the last token's text belong to the tokens before:
    none, but where it ended an unfinished character instead of going on with it.
    """

    def __init__(self, texts: TokenTexts, *, at_start: bool = False) -> None:
        self._texts = texts
        self._drops_space = at_start and texts.vocabulary.strips_leading_space
        self._pending = b""
        self.num_broken_off = 0

    @property
    def is_holding(self) -> bool:
        """Whether bytes of an unfinished character wait."""
        return bool(self._pending)

    def feed(self, token_id: int) -> str:
        """The text that this token completes."""
        text = self._texts.text(token_id)
        self.num_broken_off = 0
        if text is None or self._pending:
            text = self._complete(self._texts.raw(token_id))
        return self._without_first_space(text) if self._drops_space else text

    def plain_text(self, token_id: int) -> str | None:
        """The text of a token of whole characters that has nothing to wait for; else None, and it is not taken."""
        return None if self._pending or self._drops_space else self._texts.text(token_id)

    def finish(self) -> str:
        """What is left at the end: an unfinished character becomes U+FFFD."""
        text = self._pending.decode("utf-8", "replace")
        self._pending = b""
        return text

    def _complete(self, raw: bytes) -> str:
        self.num_broken_off = _num_broken_off(self._pending, raw)
        joined = self._pending + raw
        text, consumed = utf_8_decode(joined, "replace", False)
        self._pending = joined[consumed:]
        return text

    def _without_first_space(self, text: str) -> str:
        self._drops_space = not text
        return text.removeprefix(" ")


def _hidden_tokens(vocabulary: Vocabulary, markup: str) -> frozenset[int]:
    return frozenset(each for each in vocabulary.control if vocabulary.token_text(each) not in markup)


def _num_broken_off(pending: bytes, raw: bytes) -> int:
    """How many characters `pending` becomes if it cannot go on with what follows; 0: it can."""
    if not pending or not raw:
        return 0
    try:
        utf_8_decode(pending + raw[:1], "strict", False)
    except UnicodeDecodeError:
        return len(pending.decode("utf-8", "replace"))
    # Half of a surrogate pair is no character, which the decoder says only when it has seen the third byte.
    return int(pending == b"\xed" and raw[:1] >= b"\xa0")
