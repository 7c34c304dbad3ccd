"""One choice whose reader wants tokens and makes the text itself: each leaves at once, whatever text it is part of."""

from collections.abc import Sequence

from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.service.choice import ChoiceRules
from tailrace.service.detokenize import Detokenizer
from tailrace.service.stop import StopMatcher
from tailrace.types import FinishReason, PrefixReport, TokenEvent

__all__ = ["TokenChoice"]


class TokenChoice:
    """As a `Choice`, but without text. Stop strings are met by the token that completes them, and no token is cut."""

    def __init__(self, index: int, rules: ChoiceRules) -> None:
        self.index = index
        self.num_tokens = 0
        self.prefix: PrefixReport | None = None  # what the cache gave the prompt, once there are tokens
        self.is_done = False
        self._rules = rules
        self._stop = StopMatcher(rules.stops, include_stop=True) if rules.stops else None
        self._detokenizer = Detokenizer(rules.texts, at_start=rules.at_start)

    def feed(self, events: Sequence[TokenEvent]) -> ChoiceDelta | None:
        """The delta of these events; None when there is no token in them."""
        for count, event in enumerate(events, 1):
            if event.token_id is not None:
                self.num_tokens += 1
                self.prefix = self.prefix or event.prefix
                if (stop := self._met(event, event.token_id)) is not None:
                    return self._end(events[:count], FinishReason.STOP, stop)
            if event.finish_reason is not None:
                return self._end(events[:count], event.finish_reason, self._ended_by(event), event.error)
        return self._delta(events) if events else None

    def _met(self, event: TokenEvent, token_id: int) -> str | None:
        """The stop string that this token completes."""
        if self._stop is None or event.finish_reason is FinishReason.STOP:
            return None
        text = self._detokenizer.feed(token_id)
        if self.num_tokens > self._rules.min_tokens:
            self._stop.feed(text)
        else:
            self._stop.pass_by(text)
        return self._stop.matched

    def _ended_by(self, event: TokenEvent) -> int | None:
        is_stop = event.finish_reason is FinishReason.STOP and event.token_id in self._rules.stop_token_ids
        return event.token_id if is_stop else None

    def _end(
        self, events: Sequence[TokenEvent], reason: FinishReason, stop: str | int | None, error: str | None = None
    ) -> ChoiceDelta:
        self.is_done = True
        return self._delta(events, finish_reason=reason, stop_reason=stop, error=error)

    def _delta(
        self,
        events: Sequence[TokenEvent],
        *,
        finish_reason: FinishReason | None = None,
        stop_reason: str | int | None = None,
        error: str | None = None,
    ) -> ChoiceDelta:
        token_ids = tuple([event.token_id for event in events if event.token_id is not None])
        logprobs = [_logprob(event.token_id, event) for event in events if event.token_id is not None]
        return ChoiceDelta(
            self.index,
            "",
            token_ids,
            tuple([each for each in logprobs if each is not None]),
            finish_reason=finish_reason,
            stop_reason=stop_reason,
            error=error,
        )


def _logprob(token_id: int, event: TokenEvent) -> TextLogprob | None:
    if event.logprob is None:
        return None
    top = tuple([TextLogprob(each.token_id, "", b"", each.logprob) for each in event.top_logprobs])
    return TextLogprob(token_id, "", b"", event.logprob, top)
