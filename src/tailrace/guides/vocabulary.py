"""A model's tokens in the words of llguidance, which is loaded at the first use. Knows no text and no tokenizer."""

import re
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tailrace.errors import GuideError
from tailrace.guides.spelling import Speller
from tailrace.guides.tokens import TokenTable

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["GuideVocabulary", "TokenTable", "reason_of"]

_NO_FORCING = '%llguidance {"no_forcing": true}\n'
"""Where only one text can follow, any cutting of it into tokens may. Forcing the tokenizer's own one would take a
tokenizer, which takes the interpreter in the middle of a mask; the model itself prefers that cutting."""

_SHOWN = re.compile(r"\n +\d+ \| |<backtrace>")  # lines of the grammar, and of llguidance
_MAX_REASON_CHARS = 300

_MAX_LEXER_STATES = 50_000  # some 100 MB, for one answer


class GuideVocabulary:
    """Compiles grammars. Cheap to make: the parts are made at first use, once, by the thread that wants them.

    That takes a second for 129k tokens, on a thread that has neither an event loop nor the steps to care for.
    """

    def __init__(self, read_tokens: Callable[[], TokenTable], num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self._read_tokens = read_tokens
        self._lock = threading.RLock()

    @property
    def num_words(self) -> int:
        """Of the mask of one token, 32 bits each."""
        return -(-self.num_tokens // 32)

    @property
    def first_byte_id(self) -> int:
        """In the bytewise vocabulary, byte b is token `first_byte_id + b`."""
        return 32 * self.num_words

    def load(self) -> None:
        """Make all that masks and closings need."""
        with self._lock:
            _ = self._by_tokens, self._by_bytes, self._speller

    def compile(self, grammar: str) -> "LLMatcher":
        """Raises GuideError for a grammar that llguidance does not take. Leaves the interpreter to other threads."""
        with self._lock:
            tokenizer = self._by_tokens
        return _compiled(tokenizer, grammar)

    def compile_bytewise(self, grammar: str) -> "LLMatcher":
        """As `compile`, for texts that are spelled byte by byte. Special tokens keep their ids. Far cheaper to step."""
        with self._lock:
            tokenizer = self._by_bytes
        return _compiled(tokenizer, grammar)

    @property
    def table(self) -> TokenTable:
        with self._lock:
            return self._table

    @property
    def speller(self) -> Speller:
        with self._lock:
            return self._speller

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self._table, self.first_byte_id)

    @cached_property
    def _table(self) -> TokenTable:
        table = self._read_tokens()
        if not table.eos_ids:
            raise GuideError("the model has no token that ends an answer, so its answers cannot follow a format")
        return table

    @cached_property
    def _by_tokens(self) -> "LLTokenizer":
        missing = self.num_tokens - len(self._table.tokens)
        return _tokenizer([*self._table.tokens, *[b""] * missing], self._table)

    @cached_property
    def _by_bytes(self) -> "LLTokenizer":
        tokens = [b""] * self.first_byte_id
        for special_id in self._table.special_ids:
            tokens[special_id] = self._table.tokens[special_id]
        return _tokenizer([*tokens, *(bytes([byte]) for byte in range(256))], self._table, slices=[])


class _Wrapper:
    """What LLTokenizer reads its tokens from."""

    bos_token_id = None
    is_tokenizer_wrapper = True

    def __init__(self, tokens: Sequence[bytes], table: TokenTable) -> None:
        self.tokens = tokens
        self.eos_token_id = table.eos_ids[0]
        self.special_token_ids = sorted(table.special_ids | set(table.eos_ids))

    def __call__(self, text: str) -> list[int]:
        raise AssertionError("no grammar forces tokens")


def _tokenizer(tokens: Sequence[bytes], table: TokenTable, slices: list[str] | None = None) -> "LLTokenizer":
    from llguidance import LLTokenizer  # noqa: PLC0415  (a server that no format is asked of never loads it)

    wrapper = _Wrapper(tokens, table)
    return LLTokenizer(wrapper, eos_token=list(table.eos_ids), slices=slices)  # type: ignore[arg-type]  # by its shape


def _compiled(tokenizer: "LLTokenizer", grammar: str) -> "LLMatcher":
    from llguidance import LLMatcher, LLParserLimits  # noqa: PLC0415  (as above)

    limits = LLParserLimits(max_lexer_states=_MAX_LEXER_STATES, verbose_errors=False)
    matcher = LLMatcher(tokenizer, _NO_FORCING + grammar, log_level=0, limits=limits)
    if matcher.is_error():
        raise GuideError(reason_of(matcher))
    return matcher


def reason_of(matcher: "LLMatcher") -> str:
    """Why llguidance has given up, in a line: it shows the grammar besides, as long as that may be."""
    said = _SHOWN.split(matcher.get_error().replace("<non-verbose/>", ""), maxsplit=1)[0]
    line = " ".join(said.split())
    return line if len(line) <= _MAX_REASON_CHARS else f"{line[:_MAX_REASON_CHARS]}..."
