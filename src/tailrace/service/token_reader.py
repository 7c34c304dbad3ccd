"""The tokens of one choice on their way in: to text, and through the text machine. Does not know what is given out."""

from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.detokenize import Detokenizer
from tailrace.service.ledger import Ledger
from tailrace.service.parsing.machine import TextMachine
from tailrace.service.parsing.segments import AnswerPiece, Segment
from tailrace.types import FinishReason, TokenEvent

__all__ = ["TokenReader"]


class TokenReader:
    """Its ledger says which tokens the segments so far stand for."""

    def __init__(self, rules: ChoiceRules) -> None:
        self.ledger = Ledger(rules.texts.vocabulary)
        self.num_tokens = 0
        self.matched: str | None = None  # the stop string that ended the choice; nothing may be read after it
        self._include_stop = rules.include_stop
        self._min_tokens = rules.min_tokens
        self._detokenizer = Detokenizer(rules.texts, at_start=rules.at_start)
        self._machine: TextMachine | None = None if rules.machine is None else rules.machine()

    def read(self, event: TokenEvent, token_id: int) -> list[Segment]:
        """What is certain with this token."""
        self.num_tokens += 1
        # The token that ends an answer is not part of its text.
        is_hidden = event.finish_reason is FinishReason.STOP and not self._include_stop
        detokenizer = self._detokenizer
        text = "" if is_hidden else detokenizer.feed(token_id)
        num_before = 0 if is_hidden else detokenizer.num_broken_off
        self.ledger.enter(event, token_id, num_before, len(text), is_unfinished=detokenizer.is_holding)
        return self._take_apart(text)

    def read_text(self, token_id: int) -> str | None:
        """The text of a token of which nothing else matters, if all text is answer. None: it is not read."""
        if self._machine is not None or self.ledger.waiting:
            return None
        if (text := self._detokenizer.plain_text(token_id)) is not None:
            self.num_tokens += 1
            self.ledger.pass_by(len(text), 0)
        return text

    def read_plain(self, event: TokenEvent, token_id: int) -> list[Segment] | None:
        """The same of text that is taken apart: what is certain with it. All is out if nothing waits in the ledger."""
        machine = self._machine
        if machine is None or self.ledger.waiting or (text := self._detokenizer.plain_text(token_id)) is None:
            return None
        self.num_tokens += 1
        segments = machine.feed(text, is_free=self.num_tokens <= self._min_tokens)
        if machine.is_quiet:
            self.ledger.pass_by(len(text), machine.reasoning_end)
        else:
            self.ledger.enter(event, token_id, 0, len(text), is_unfinished=False)
            self._settle()
        return segments

    def finish(self) -> list[Segment]:
        """What is left when there are no more tokens. A stop string may be met in it."""
        segments = self._take_apart(self._detokenizer.finish())
        if self._machine is not None and self.matched is None:
            segments += self._machine.finish()
            self._settle()
        return segments

    def _take_apart(self, text: str) -> list[Segment]:
        machine = self._machine
        if machine is None:
            self._settle()
            return [AnswerPiece(text)] if text else []
        segments = machine.feed(text, is_free=self.num_tokens <= self._min_tokens) if text else []
        self._settle()
        return segments

    def _settle(self) -> None:
        machine, ledger = self._machine, self.ledger
        if machine is None:
            ledger.settle(ledger.num_decoded, 0)
        else:
            ledger.settle(machine.num_certain, machine.reasoning_end)
            self.matched = machine.matched
