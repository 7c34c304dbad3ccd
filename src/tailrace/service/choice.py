"""One choice of a generation: token events in, deltas out. Any cutting of the events gives the same answer.

A token's id and log probability leave with the text that it stands for: while text is held back, so are they. Tokens
of markup leave without text.
"""

from collections.abc import Sequence

from tailrace.service.api import CallDelta, ChoiceDelta
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.delta_writer import DeltaWriter
from tailrace.service.ledger import Tokens
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment
from tailrace.service.token_reader import TokenReader
from tailrace.types import FinishReason, PrefixReport, TokenEvent

__all__ = ["Choice"]


class Choice:
    """`is_done` is set by the delta that has a finish_reason; nothing may be fed after it."""

    def __init__(self, index: int, rules: ChoiceRules) -> None:
        self.index = index
        self.prefix: PrefixReport | None = None  # what the cache gave the prompt, once there are tokens
        self.is_done = False
        self._rules = rules
        self._reader = TokenReader(rules)
        self._has_calls = False

    @property
    def num_tokens(self) -> int:
        return self._reader.num_tokens

    @property
    def num_reasoning_tokens(self) -> int:
        """Of the tokens that were given out, those that begin in front of the end of the reasoning."""
        return self._reader.ledger.num_reasoning_tokens

    def feed(self, events: Sequence[TokenEvent]) -> Sequence[ChoiceDelta]:
        """The deltas of these events; none when nothing in them is certain yet."""
        if len(events) == 1:
            event = events[0]
            if event.token_id is not None and event.finish_reason is None:
                return self._feed_one(event, event.token_id)
        return self._feed_all(events)

    def _feed_one(self, event: TokenEvent, token_id: int) -> Sequence[ChoiceDelta]:
        """The deltas of one token behind which there are others, as nearly all come."""
        self.prefix = self.prefix or event.prefix
        reader = self._reader
        segments = None
        if event.logprob is None:
            if (text := reader.read_text(token_id)) is not None:
                return (ChoiceDelta(self.index, text, (token_id,)),)
            segments = reader.read_plain(event, token_id)
        if segments is None:
            segments = reader.read(event, token_id)
        tokens = ((token_id,), ()) if not reader.ledger.waiting else reader.ledger.take_due()
        if reader.matched is None:
            if not segments:
                return (ChoiceDelta(self.index, "", *tokens),) if tokens[0] else ()
            if len(segments) == 1 and (delta := self._delta(segments[0], tokens)) is not None:
                return (delta,)
        writer = self._writer()
        self._write(writer, segments, tokens)
        return writer.take() if reader.matched is None else self._stopped(writer, reader.matched)

    def _delta(self, segment: Segment, tokens: Tokens) -> ChoiceDelta | None:
        """What a writer would make of most segments, without one."""
        if isinstance(segment, AnswerPiece):
            return ChoiceDelta(self.index, segment.text, *tokens)
        if isinstance(segment, ReasoningPiece):
            return ChoiceDelta(self.index, "", *tokens, reasoning=segment.text)
        if isinstance(segment, CallGoesOn):
            return ChoiceDelta(self.index, "", *tokens, calls=(CallDelta(segment.number, segment.arguments),))
        return None

    def _feed_all(self, events: Sequence[TokenEvent]) -> Sequence[ChoiceDelta]:
        reader, writer = self._reader, self._writer()
        for event in events:
            if event.token_id is not None:
                self.prefix = self.prefix or event.prefix
                segments = reader.read(event, event.token_id)
                self._write(writer, segments, reader.ledger.take_due())
                if reader.matched is not None:
                    return self._stopped(writer, reader.matched)
            if event.finish_reason is not None:
                return self._finish(event, event.finish_reason, writer)
        return writer.take()

    def _writer(self) -> DeltaWriter:
        return DeltaWriter(self.index, self._rules.request_id)

    def _write(self, writer: DeltaWriter, segments: Sequence[Segment], tokens: Tokens) -> None:
        for segment in segments:
            self._has_calls = self._has_calls or isinstance(segment, CallBegins)
            writer.write(segment)
        writer.add_tokens(tokens)

    def _finish(self, event: TokenEvent, reason: FinishReason, writer: DeltaWriter) -> Sequence[ChoiceDelta]:
        self._write(writer, self._reader.finish(), ((), ()))
        if self._reader.matched is not None:
            return self._stopped(writer, self._reader.matched)
        writer.add_tokens(self._reader.ledger.take_all())
        self.is_done = True
        if reason is not FinishReason.STOP:
            return writer.end(reason, None, event.error)
        ended_by = event.token_id if event.token_id in self._rules.stop_token_ids else None
        return writer.end(FinishReason.TOOL_CALLS if self._has_calls else reason, ended_by, event.error)

    def _stopped(self, writer: DeltaWriter, stop: str) -> Sequence[ChoiceDelta]:
        writer.add_tokens(self._reader.ledger.take_begun())
        self.is_done = True
        return writer.end(FinishReason.STOP, stop, None)
