"""What the stages of the text machine pass on: pieces of an answer, each of one kind, in the order of the text."""

from typing import NamedTuple, Protocol, TypeAlias

__all__ = ["AnswerPiece", "CallBegins", "CallGoesOn", "ReasoningPiece", "Segment", "Stage"]


class AnswerPiece(NamedTuple):
    text: str


class ReasoningPiece(NamedTuple):
    text: str


class CallBegins(NamedTuple):
    """Call number `number` of the answer, from 0, is of this function."""

    number: int
    name: str


class CallGoesOn(NamedTuple):
    """More of the arguments of call `number`."""

    number: int
    arguments: str


Segment: TypeAlias = AnswerPiece | ReasoningPiece | CallBegins | CallGoesOn


class Stage(Protocol):
    """Text in, segments out. Any cutting of the text gives the same text of each segment, and the same order.

    It holds back no more than could still be markup. `num_held` counts characters that it has taken and not decided
    on: neither given out nor dropped as markup.
    """

    @property
    def num_held(self) -> int: ...

    def feed(self, text: str) -> list[Segment]: ...

    def finish(self) -> list[Segment]:
        """What is held when the answer ends here. Nothing may be fed after it."""
        ...
