"""One choice of a generation: token events in, deltas of text out. Any cutting of the events gives the same answer.

The stages are tokens -> text (detokenize) -> certain text (stop). A token's id and log probability leave with the
text that it stands for: while text is held back, so are they.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.service.detokenize import Detokenizer, TokenTexts
from tailrace.service.stop import StopMatcher, StopStrings
from tailrace.service.vocabulary import Vocabulary
from tailrace.types import FinishReason, TokenEvent, TokenLogprob

__all__ = ["Choice", "ChoiceRules"]


@dataclass(frozen=True, slots=True)
class ChoiceRules:
    """What all choices of one generation have in common."""

    texts: TokenTexts
    at_start: bool = False  # no text comes before the answer
    stops: StopStrings | None = None
    include_stop: bool = False
    stop_token_ids: tuple[int, ...] = ()


class Choice:
    """`is_done` is set by the delta that has a finish_reason; nothing may be fed after it."""

    def __init__(self, index: int, rules: ChoiceRules) -> None:
        self.index = index
        self.num_tokens = 0
        self.num_cached_tokens = 0
        self.is_done = False
        self._rules = rules
        self._detokenizer = Detokenizer(rules.texts, at_start=rules.at_start)
        self._stop = StopMatcher(rules.stops, include_stop=rules.include_stop) if rules.stops else None
        self._ledger = _Ledger(rules.texts.vocabulary)

    def feed(self, events: Iterable[TokenEvent]) -> ChoiceDelta | None:
        """The delta of these events; None when nothing in them is certain yet."""
        text = ""
        for event in events:
            if event.token_id is not None:
                text += self._take(event, event.token_id)
                if self._stop is not None and self._stop.matched is not None:
                    return self._stopped_by(self._stop.matched, text)
            if event.finish_reason is not None:
                return self._finish(event, event.finish_reason, text)
        return self._delta(text) if text or self._ledger.is_due else None

    def _take(self, event: TokenEvent, token_id: int) -> str:
        self.num_tokens += 1
        self.num_cached_tokens = event.num_cached_tokens
        # The token that ends an answer is not part of its text.
        is_hidden = event.finish_reason is FinishReason.STOP and not self._rules.include_stop
        text = "" if is_hidden else self._detokenizer.feed(token_id)
        self._ledger.enter(event, token_id, len(text), is_unfinished=self._detokenizer.is_holding)
        return self._certain(text)

    def _certain(self, text: str) -> str:
        certain = text if self._stop is None else self._stop.feed(text)
        self._ledger.emitted += len(certain)
        return certain

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


class _Ledger:
    """Tokens whose text has not all been given out, each with the place in the text where it ends."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.emitted = 0  # characters given out
        self._decoded = 0  # characters that the tokens so far stand for
        self._taken = 0  # where the last token that was taken ends
        self._vocabulary = vocabulary
        self._entries: deque[tuple[int, int, TokenEvent]] = deque()

    def enter(self, event: TokenEvent, token_id: int, num_chars: int, *, is_unfinished: bool) -> None:
        self._decoded += num_chars
        self._entries.append((self._decoded + is_unfinished, token_id, event))

    @property
    def is_due(self) -> bool:
        return bool(self._entries) and self._entries[0][0] <= self.emitted

    def take_due(self) -> _Tokens:
        """The tokens whose text is out."""
        return self._tokens(self._pop_due())

    def take_begun(self) -> _Tokens:
        """The tokens whose text is out, and the one whose text is out in part."""
        begun = self._pop_due()
        if self._entries and self._taken < self.emitted:
            begun.append(self._entries[0][1:])
        return self._tokens(begun)

    def take_all(self) -> _Tokens:
        return self._tokens([entry[1:] for entry in self._entries])

    def _pop_due(self) -> list[tuple[int, TokenEvent]]:
        due = []
        while self._entries and self._entries[0][0] <= self.emitted:
            self._taken, *_ = entry = self._entries.popleft()
            due.append(entry[1:])
        return due

    def _tokens(self, events: Sequence[tuple[int, TokenEvent]]) -> _Tokens:
        ids = tuple([token_id for token_id, _ in events])
        logprobs = [
            self._text_logprob(token_id, event.logprob, event.top_logprobs)
            for token_id, event in events
            if event.logprob is not None
        ]
        return ids, tuple(logprobs)

    def _text_logprob(self, token_id: int, logprob: float, top: Sequence[TokenLogprob] = ()) -> TextLogprob:
        return TextLogprob(
            token_id,
            self._vocabulary.token_text(token_id),
            self._vocabulary.token_bytes(token_id),
            logprob,
            tuple([self._text_logprob(other.token_id, other.logprob) for other in top]),
        )
