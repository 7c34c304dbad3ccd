"""What choices give out: segments and tokens, in order, as deltas."""

from dataclasses import dataclass, field
from hashlib import sha256

from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob
from tailrace.service.ledger import Tokens
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment
from tailrace.types import FinishReason

__all__ = ["DeltaWriter", "call_id"]


def call_id(request_id: str, choice: int, number: int) -> str:
    """The same for whoever makes the answer again."""
    return f"call_{sha256(f'{request_id}/{choice}/{number}'.encode()).hexdigest()[:24]}"


@dataclass(slots=True)
class _Draft:
    """A delta that is being written."""

    reasoning: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    calls: list["_CallDraft"] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TextLogprob] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.reasoning or self.text or self.calls or self.token_ids)

    def delta(self, index: int) -> ChoiceDelta:
        return ChoiceDelta(
            index,
            "".join(self.text),
            tuple(self.token_ids),
            tuple(self.logprobs),
            reasoning="".join(self.reasoning),
            calls=tuple([call.delta() for call in self.calls]),
        )


@dataclass(slots=True)
class _CallDraft:
    index: int
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def delta(self) -> CallDelta:
        return CallDelta(self.index, "".join(self.arguments), self.call_id, self.name)


class DeltaWriter:
    """Deltas of one choice. What may not come in one of them, as its parts have an order, begins another."""

    def __init__(self, index: int, request_id: str) -> None:
        self._index = index
        self._request_id = request_id
        self._deltas: list[ChoiceDelta] = []
        self._draft = _Draft()

    def write(self, segment: Segment) -> None:
        match segment:
            case AnswerPiece(text):
                self._draft_without(self._draft.calls).text.append(text)
            case ReasoningPiece(text):
                self._draft_without(self._draft.text or self._draft.calls).reasoning.append(text)
            case CallBegins(number, name):
                self._draft.calls.append(_CallDraft(number, call_id(self._request_id, self._index, number), name))
            case CallGoesOn(number, arguments):
                self._call(number).arguments.append(arguments)

    def add_tokens(self, tokens: Tokens) -> None:
        """Tokens whose text was written last."""
        token_ids, logprobs = tokens
        self._draft.token_ids += token_ids
        self._draft.logprobs += logprobs

    def take(self) -> list[ChoiceDelta]:
        """The deltas so far; perhaps none."""
        if not self._draft.is_empty:
            self._close()
        deltas, self._deltas = self._deltas, []
        return deltas

    def end(self, reason: FinishReason, stop_reason: str | int | None, error: str | None) -> list[ChoiceDelta]:
        """The deltas so far, of which the last ends the choice."""
        if not self._draft.is_empty or not self._deltas:
            self._close()
        last = self._deltas[-1]
        last.finish_reason, last.stop_reason, last.error = reason, stop_reason, error
        return self._deltas

    def _draft_without(self, later: list[str] | list[_CallDraft]) -> _Draft:
        """One in which nothing is written that would come behind what is written now."""
        if later:
            self._close()
        return self._draft

    def _call(self, number: int) -> _CallDraft:
        calls = self._draft.calls
        if not calls or calls[-1].index != number:
            calls.append(_CallDraft(number))
        return calls[-1]

    def _close(self) -> None:
        self._deltas.append(self._draft.delta(self._index))
        self._draft = _Draft()
