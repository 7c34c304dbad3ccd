"""Tokens whose text has not all been given out, each with its place in what the model has written."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from tailrace.service.api import TextLogprob
from tailrace.service.vocabulary import Vocabulary
from tailrace.types import TokenEvent

__all__ = ["Ledger", "Tokens"]

Tokens: TypeAlias = tuple[tuple[int, ...], tuple[TextLogprob, ...]]  # ids and their log probabilities


@dataclass(slots=True)
class _Entry:
    """A token, and where its text begins and ends."""

    start: int
    end: int
    token_id: int
    event: TokenEvent


class Ledger:
    """A token leaves when all of its text is decided on. A reasoning token is one that begins where reasoning is."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.num_decoded = 0  # characters that the tokens so far stand for
        self.num_reasoning_tokens = 0  # of those that have left
        self._certain = 0
        self._reasoning_end = 0
        self._taken = 0  # where the last token that has left ends
        self._vocabulary = vocabulary
        self.waiting: deque[_Entry] = deque()

    def enter(self, event: TokenEvent, token_id: int, num_before: int, num_chars: int, *, is_unfinished: bool) -> None:
        """A token that made `num_chars` characters, of which the first `num_before` are of the tokens before it."""
        start = self.num_decoded + num_before
        self.num_decoded += num_chars
        self.waiting.append(_Entry(start, self.num_decoded + is_unfinished, token_id, event))

    def settle(self, certain: int, reasoning_end: int) -> None:
        """The text is decided on up to one place, and reasoning up to the other."""
        self._certain = certain
        self._reasoning_end = reasoning_end

    def pass_by(self, num_chars: int, reasoning_end: int) -> None:
        """A token whose text is out at once, while no other is held."""
        if self.num_decoded < reasoning_end:
            self.num_reasoning_tokens += 1
        self.num_decoded += num_chars
        self._taken = self._certain = self.num_decoded

    @property
    def is_due(self) -> bool:
        return bool(self.waiting) and self.waiting[0].end <= self._certain

    def take_due(self) -> Tokens:
        """The tokens whose text is out."""
        return self._tokens(self._pop_due())

    def take_begun(self) -> Tokens:
        """The tokens whose text is out, and the one whose text is out in part."""
        begun = self._pop_due()
        if self.waiting and self._taken < self._certain:
            begun.append(self.waiting[0])
        return self._tokens(begun)

    def take_all(self) -> Tokens:
        return self._tokens(self.waiting)

    def _pop_due(self) -> list[_Entry]:
        due = []
        while self.is_due:
            due.append(self.waiting.popleft())
            self._taken = due[-1].end
        return due

    def _tokens(self, entries: Collection[_Entry]) -> Tokens:
        if self._reasoning_end > 0:
            self.num_reasoning_tokens += sum(entry.start < self._reasoning_end for entry in entries)
        ids = tuple([entry.token_id for entry in entries])
        return ids, tuple(
            [self._logprob(entry, entry.event.logprob) for entry in entries if entry.event.logprob is not None]
        )

    def _logprob(self, entry: _Entry, logprob: float) -> TextLogprob:
        top = [self._text_logprob(other.token_id, other.logprob, entry.start) for other in entry.event.top_logprobs]
        return self._text_logprob(entry.token_id, logprob, entry.start, tuple(top))

    def _text_logprob(
        self, token_id: int, logprob: float, offset: int, top: tuple[TextLogprob, ...] = ()
    ) -> TextLogprob:
        text, raw = self._vocabulary.token_text(token_id), self._vocabulary.token_bytes(token_id)
        is_reasoning = offset < self._reasoning_end
        return TextLogprob(token_id, text, raw, logprob, top, offset, is_reasoning)
