"""What a text machine makes of a text, in a form in which two ways of cutting it can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.service.parsing.machine import TextMachine
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment

__all__ = ["Fate", "Reading", "fates", "fates_of", "read"]

# What becomes of a character: it comes out as "reasoning", "answer" or "arguments"; as a name, the whole of a "call"
# does; what is markup, or only a part of a name, is "" and nothing.
Fate = tuple[str, str]


@dataclass(frozen=True)
class Reading:
    """What comes out, the place up to which all is decided in the end, and the stop string that ended it."""

    parts: list[Fate]
    place: int
    stop: str | None = None


def fates(kind: str, text: str) -> list[Fate]:
    return [(kind, character) for character in text]


def fates_of(segments: Sequence[Segment]) -> list[Fate]:
    parts: list[Fate] = []
    for segment in segments:
        match segment:
            case ReasoningPiece(shown):
                parts += fates("reasoning", shown)
            case AnswerPiece(shown):
                parts += fates("answer", shown)
            case CallBegins(_, name):
                parts.append(("call", name))
            case CallGoesOn(_, shown):
                parts += fates("arguments", shown)
    return parts


def read(machine: TextMachine, pieces: Sequence[str]) -> Reading:
    segments: list[Segment] = []
    for piece in pieces:
        if machine.matched is None:
            segments += machine.feed(piece)
    if machine.matched is None:
        segments += machine.finish()
    return Reading(fates_of(segments), machine.num_certain, machine.matched)
