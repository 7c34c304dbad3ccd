"""One choice of a generation: token events in, deltas of text out. Any cutting of the events gives the same answer.

The stages are tokens -> text (detokenize) -> certain text (stop). A token's id and log probability leave with the
text that it stands for: while text is held back, so are they.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.service.detokenize import Detokenizer, TokenTexts
from tailrace.service.stop import StopMatcher, StopStrings
from tailrace.service.vocabulary import Vocabulary
from tailrace.types import FinishReason, PrefixReport, TokenEvent

__all__ = ["Choice", "ChoiceRules"]


@dataclass(frozen=True, slots=True)
class ChoiceRules:
    """What all choices of one generation have in common."""

    texts: TokenTexts
    at_start: bool = False  # no text comes before the answer
    stops: StopStrings | None = None
    include_stop: bool = False
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0  # no stop string may end in the text of so many tokens


class Choice:
    """`is_done` is set by the delta that has a finish_reason; nothing may be fed after it."""

    def __init__(self, index: int, rules: ChoiceRules) -> None:
        self.index = index
        self.num_tokens = 0
        self.prefix: PrefixReport | None = None  # what the cache gave the prompt, once there are tokens
        self.is_done = False
        self._rules = rules
        self._detokenizer = Detokenizer(rules.texts, at_start=rules.at_start)
        self._stop = StopMatcher(rules.stops, include_stop=rules.include_stop) if rules.stops else None
        self._ledger = _Ledger(rules.texts.vocabulary)

    def feed(self, events: Sequence[TokenEvent]) -> ChoiceDelta | None:
        """The delta of these events; None when nothing in them is certain yet."""
        if len(events) == 1 and (plain := self._feed_plain(events[0])) is not None:
            return plain
        text = ""
        for event in events:
            if event.token_id is not None:
                text += self._take(event, event.token_id)
                if self._stop is not None and self._stop.matched is not None:
                    return self._stopped_by(self._stop.matched, text)
            if event.finish_reason is not None:
                return self._finish(event, event.finish_reason, text)
        return self._delta(text) if text or self._ledger.is_due else None

    def _feed_plain(self, event: TokenEvent) -> ChoiceDelta | None:
        """The delta of an event of which nothing but its text is wanted, as nearly all are; None if it is no such."""
        token_id = event.token_id
        if token_id is None or event.finish_reason is not None or event.logprob is not None or self._stop is not None:
            return None
        if not self._ledger.is_empty or (text := self._detokenizer.plain_text(token_id)) is None:
            return None
        self.num_tokens += 1
        self.prefix = self.prefix or event.prefix
        self._ledger.pass_by(len(text))
        return ChoiceDelta(self.index, text, (token_id,))

    def _take(self, event: TokenEvent, token_id: int) -> str:
        self.num_tokens += 1
        self.prefix = self.prefix or event.prefix
        # The token that ends an answer is not part of its text.
        is_hidden = event.finish_reason is FinishReason.STOP and not self._rules.include_stop
        detokenizer = self._detokenizer
        text = "" if is_hidden else detokenizer.feed(token_id)
        num_before = 0 if is_hidden else detokenizer.num_broken_off
        self._ledger.enter(event, token_id, num_before, len(text), is_unfinished=detokenizer.is_holding)
        return self._certain(text)

    def _certain(self, text: str) -> str:
        certain = text if self._stop is None else self._search(self._stop, text)
        self._ledger.emitted += len(certain)
        return certain

    def _search(self, stop: StopMatcher, text: str) -> str:
        return stop.feed(text) if self.num_tokens > self._rules.min_tokens else stop.pass_by(text)

    def _finish(self, event: TokenEvent, reason: FinishReason, text: str) -> ChoiceDelta:
        text += self._certain(self._detokenizer.finish())
        if self._stop is not None:
            if self._stop.matched is not None:
                return self._stopped_by(self._stop.matched, text)
            text += self._stop.finish()
        ended_by = event.token_id if event.token_id in self._rules.stop_token_ids else None
        stop_reason = ended_by if reason is FinishReason.STOP else None
        return self._end(text, self._ledger.take_all(), reason, stop_reason=stop_reason, error=event.error)

    def _stopped_by(self, stop: str, text: str) -> ChoiceDelta:
        return self._end(text, self._ledger.take_begun(), FinishReason.STOP, stop_reason=stop)

    def _end(
        self,
        text: str,
        tokens: "_Tokens",
        reason: FinishReason,
        *,
        stop_reason: str | int | None,
        error: str | None = None,
    ) -> ChoiceDelta:
        self.is_done = True
        return ChoiceDelta(self.index, text, *tokens, finish_reason=reason, stop_reason=stop_reason, error=error)

    def _delta(self, text: str) -> ChoiceDelta:
        return ChoiceDelta(self.index, text, *self._ledger.take_due())


_Tokens = tuple[tuple[int, ...], tuple[TextLogprob, ...]]  # ids and their log probabilities


@dataclass(slots=True)
class _Entry:
    """A token, and where its text begins and ends in the text of the choice."""

    start: int
    end: int
    token_id: int
    event: TokenEvent


class _Ledger:
    """Tokens whose text has not all been given out, each with its place in the text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.emitted = 0  # characters given out
        self._decoded = 0  # characters that the tokens so far stand for
        self._taken = 0  # where the last token that was taken ends
        self._vocabulary = vocabulary
        self._entries: deque[_Entry] = deque()

    def enter(self, event: TokenEvent, token_id: int, num_before: int, num_chars: int, *, is_unfinished: bool) -> None:
        """A token that made `num_chars` characters, of which the first `num_before` are of the tokens before it."""
        start = self._decoded + num_before
        self._decoded += num_chars
        self._entries.append(_Entry(start, self._decoded + is_unfinished, token_id, event))

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def pass_by(self, num_chars: int) -> None:
        """A token whose text is out at once, while no other is held."""
        self.emitted += num_chars
        self._decoded += num_chars
        self._taken = self._decoded

    @property
    def is_due(self) -> bool:
        return bool(self._entries) and self._entries[0].end <= self.emitted

    def take_due(self) -> _Tokens:
        """The tokens whose text is out."""
        return self._tokens(self._pop_due())

    def take_begun(self) -> _Tokens:
        """The tokens whose text is out, and the one whose text is out in part."""
        begun = self._pop_due()
        if self._entries and self._taken < self.emitted:
            begun.append(self._entries[0])
        return self._tokens(begun)

    def take_all(self) -> _Tokens:
        return self._tokens(self._entries)

    def _pop_due(self) -> list[_Entry]:
        due = []
        while self.is_due:
            due.append(self._entries.popleft())
            self._taken = due[-1].end
        return due

    def _tokens(self, entries: Collection[_Entry]) -> _Tokens:
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
        return TextLogprob(token_id, text, raw, logprob, top, offset)
