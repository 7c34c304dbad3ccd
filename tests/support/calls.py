"""What comes out of a stage that is fed an answer, in pieces or whole, in a form that does not show the pieces."""

from collections.abc import Iterable

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, Segment, Stage
from tailrace.service.parsing.tools import call_stage

__all__ = ["cut_every_way", "joined", "parsed", "taken"]


def taken(stage: Stage, pieces: Iterable[str]) -> list[Segment]:
    segments = [segment for piece in pieces for segment in stage.feed(piece)]
    segments += stage.finish()
    assert stage.num_held == 0
    return segments


def joined(segments: Iterable[Segment]) -> list[Segment]:
    """Neighbours of one kind as one."""
    whole: list[Segment] = []
    for segment in segments:
        last = whole[-1] if whole else None
        if isinstance(segment, AnswerPiece) and isinstance(last, AnswerPiece):
            whole[-1] = AnswerPiece(last.text + segment.text)
        elif isinstance(segment, CallGoesOn) and isinstance(last, CallGoesOn) and last.number == segment.number:
            whole[-1] = CallGoesOn(last.number, last.arguments + segment.arguments)
        else:
            whole.append(segment)
    return whole


def parsed(style: str, *pieces: str) -> list[str | tuple[str, str]]:
    """Texts and calls (name, arguments) of an answer."""
    parts: list[str | tuple[str, str]] = []
    calls: dict[int, int] = {}
    for segment in joined(taken(call_stage(style), pieces)):
        if isinstance(segment, AnswerPiece):
            parts.append(segment.text)
        elif isinstance(segment, CallBegins):
            assert segment.number == len(calls)
            calls[segment.number] = len(parts)
            parts.append((segment.name, ""))
        elif isinstance(segment, CallGoesOn):
            at = calls[segment.number]
            parts[at] = (parts[at][0], parts[at][1] + segment.arguments)
    return parts


def cut_every_way(style: str, text: str) -> None:
    """Character by character, and in two at every place, it comes to the same as whole."""
    whole = joined(taken(call_stage(style), [text]))
    assert joined(taken(call_stage(style), text)) == whole
    for place in range(1, len(text)):
        assert joined(taken(call_stage(style), [text[:place], text[place:]])) == whole, text[:place]
