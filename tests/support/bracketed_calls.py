"""A stage with the simplest markup of calls that has everything real ones have: `[name:arguments]`."""

from dataclasses import dataclass

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, Segment

__all__ = ["BracketedCalls"]


@dataclass
class BracketedCalls:
    """A name has no bracket in it; what has one is no call, and comes out as answer without its brackets."""

    name: str | None = None  # of a call that begins
    is_in_call: bool = False
    num_calls: int = 0

    @property
    def num_held(self) -> int:
        return len(self.name or "")

    def feed(self, text: str) -> list[Segment]:
        return [segment for character in text for segment in self._step(character)]

    def finish(self) -> list[Segment]:
        held, self.name = self.name, None
        return [AnswerPiece(held)] if held else []

    def _step(self, character: str) -> list[Segment]:
        if self.is_in_call:
            self.is_in_call = character != "]"
            return [CallGoesOn(self.num_calls - 1, character)] if self.is_in_call else []
        if self.name is None:
            if character != "[":
                return [AnswerPiece(character)]
            self.name = ""
            return []
        if character == ":":
            begins = CallBegins(self.num_calls, self.name)
            self.name, self.is_in_call, self.num_calls = None, True, self.num_calls + 1
            return [begins]
        if character in "[]":
            held, self.name = self.name, "" if character == "[" else None
            return [AnswerPiece(held)] if held else []
        self.name += character
        return []
