"""The end of an answer that is kept in reach, so that it can be cut at any token and is whole."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tailrace.errors import GuideError
from tailrace.guides.closing import Closer, Items, completes
from tailrace.guides.endings import noted_endings
from tailrace.guides.vocabulary import GuideVocabulary, reason_of

if TYPE_CHECKING:
    from llguidance import LLMatcher

__all__ = ["Reserve"]

_MAX_CLOSING_BYTES = 1 << 14
_WIDTHS = (1, 8)  # of searches, one after the other: a narrow one is fast, and nearly always finds the shortest end
_MAX_DETOUR = 32  # bytes in front of a closing that was one before
_BYTES_A_TOKEN = 4  # seldom are there more in one of a closing


class _Closing(NamedTuple):
    items: Items
    token_ids: tuple[int, ...]


class Reserve:
    """Where an answer stands, byte by byte, and a closing: what makes it whole from there.

    Not for two threads at a time.
    """

    def __init__(self, vocabulary: GuideVocabulary, grammar: str) -> None:
        self._speller = vocabulary.speller
        self._matcher = vocabulary.compile_bytewise(grammar)
        self._closer = Closer(vocabulary, noted_endings(grammar))
        self._closing: _Closing | None = None

    def follow(self, token_ids: Sequence[int]) -> None:
        """The answer went on with these tokens; the closing is no longer known."""
        for token_id in token_ids:
            if not self._matcher.consume_tokens(self._speller.split(token_id)):
                raise GuideError(reason_of(self._matcher) or f"token {token_id} is not allowed here")
            self._closing = None

    def look(self, max_tokens: int) -> int | None:
        """The length of a closing of at most so many tokens, which is known from then on; None: none was found."""
        if self._closing is None or len(self._closing.token_ids) > max_tokens:
            self._closing = self._found(self._matcher, max_tokens)
        return None if self._closing is None else len(self._closing.token_ids)

    def shortest(self, max_tokens: int) -> int | None:
        """As `look`, by a search that takes longer and finds shorter ones."""
        found = [self._found(self._matcher, max_tokens, [width]) for width in _WIDTHS]
        return min((len(closing.token_ids) for closing in found if closing is not None), default=None)

    def secure(self, token_id: int, num_left: int) -> bool:
        """Go on with this token if a closing is found that fits behind it into `num_left`. Else nothing changes."""
        after = self._matcher.deep_copy()
        split = self._speller.split(token_id)
        if after.try_consume_tokens(split) < len(split):
            return False
        closing = self._kept(after, token_id, split)
        if closing is None or len(closing.token_ids) > num_left:
            closing = self._found(after, num_left, _WIDTHS[:1])  # a step waits for it
        if closing is not None:
            self._matcher, self._closing = after, closing
        return closing is not None

    def advance(self) -> int | None:
        """Go on with the first token of the closing, which is given back; None: there is none, or it is empty."""
        if self._closing is None or not self._closing.token_ids:
            return None
        token_id, *rest = self._closing.token_ids
        num_items = len(self._speller.split(token_id))
        closing = _Closing(self._closing.items[num_items:], tuple(rest))
        self.follow([token_id])
        self._closing = closing
        return token_id

    def _kept(self, after: "LLMatcher", token_id: int, split: Sequence[int]) -> _Closing | None:
        """The closing that there was, what is left of it, or a short way to where it is one again."""
        if self._closing is None:
            return None
        items, token_ids = self._closing
        if token_ids[:1] == (token_id,):
            return _Closing(items[len(split) :], token_ids[1:])
        if completes(after, items):
            return self._closing
        if items[: len(split)] == tuple(split):
            return self._written(items[len(split) :])
        found = self._closer.find(after, len(items) + _MAX_DETOUR, tail=items)
        return None if found is None else self._written(found)

    def _found(self, matcher: "LLMatcher", max_tokens: int, widths: Sequence[int] = _WIDTHS) -> _Closing | None:
        max_items = min(_BYTES_A_TOKEN * max_tokens + 16, _MAX_CLOSING_BYTES)
        for width in widths:
            items = self._closer.find(matcher, max_items, width)
            if items is None:
                continue
            closing = self._written(items)
            if len(closing.token_ids) <= max_tokens:
                return closing
            max_items = len(items) - 1
        return None

    def _written(self, items: Items) -> _Closing:
        return _Closing(items, tuple(self._speller.join(items)))
