"""One choice whose reader wants tokens and makes the text itself: each leaves at once, whatever text it is part of."""

from collections.abc import Sequence

from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.parsing.segments import CallBegins, Segment
from tailrace.service.token_reader import TokenReader
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
        self._reader = None if rules.machine is None else TokenReader(rules)
        self._has_calls = False

    @property
    def num_reasoning_tokens(self) -> int:
        """Of the tokens whose text is decided on, those that begin in front of the end of the reasoning."""
        return 0 if self._reader is None else self._reader.ledger.num_reasoning_tokens

    def feed(self, events: Sequence[TokenEvent]) -> Sequence[ChoiceDelta]:
        """The delta of these events; none when there is no token in them."""
        for count, event in enumerate(events, 1):
            if event.token_id is not None:
                self.num_tokens += 1
                self.prefix = self.prefix or event.prefix
            if self._reader is not None and (stop := self._met(self._reader, event)) is not None:
                return self._end(events[:count], FinishReason.STOP, stop)
            if event.finish_reason is not None:
                return self._finish(events[:count], event.finish_reason)
        return (self._delta(events),) if events else ()

    def _met(self, reader: TokenReader, event: TokenEvent) -> str | None:
        """The stop string that is met with this event."""
        if event.token_id is not None:
            self._look_for_calls(reader.read(event, event.token_id))
            reader.ledger.take_due()
        if event.finish_reason is not None and reader.matched is None:
            self._look_for_calls(reader.finish())
            if reader.matched is None:
                reader.ledger.take_all()
        if reader.matched is not None:
            reader.ledger.take_begun()
        return reader.matched

    def _look_for_calls(self, segments: Sequence[Segment]) -> None:
        self._has_calls = self._has_calls or any(isinstance(segment, CallBegins) for segment in segments)

    def _finish(self, events: Sequence[TokenEvent], reason: FinishReason) -> Sequence[ChoiceDelta]:
        last = events[-1]
        if reason is not FinishReason.STOP:
            return self._end(events, reason, None, last.error)
        ended_by = last.token_id if last.token_id in self._rules.stop_token_ids else None
        return self._end(events, FinishReason.TOOL_CALLS if self._has_calls else reason, ended_by, last.error)

    def _end(
        self, events: Sequence[TokenEvent], reason: FinishReason, stop: str | int | None, error: str | None = None
    ) -> Sequence[ChoiceDelta]:
        self.is_done = True
        return (self._delta(events, finish_reason=reason, stop_reason=stop, error=error),)

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
