"""An answer as sections: reasoning, text and calls, each as long as nothing else comes between, in their order."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob

__all__ = ["Cutter", "Piece", "Section", "SectionKind", "Sections"]


class SectionKind(Enum):
    REASONING = auto()
    TEXT = auto()
    CALL = auto()


class Piece(NamedTuple):
    """New text of section `number`, counted from 0: of a call, its arguments.

    `logprobs` are of the tokens of an answer's text alone.
    """

    number: int
    kind: SectionKind
    text: str
    logprobs: tuple[TextLogprob, ...] = ()
    call_id: str = ""
    name: str = ""


class Cutter:
    """Cuts the deltas of one choice where a section ends and another begins."""

    def __init__(self) -> None:
        self.number = -1  # of the section that is being written, and
        self.kind: SectionKind | None = None  # what it is
        self._call: int | None = None
        self._waiting: tuple[TextLogprob, ...] = ()  # for the text that their tokens are the beginning of

    def cut(self, delta: ChoiceDelta) -> list[Piece]:
        """What is new, in order. Each piece is of the section of the one before it, or begins the next."""
        pieces: list[Piece] = []
        if delta.reasoning:
            pieces.append(Piece(self._section(SectionKind.REASONING), SectionKind.REASONING, delta.reasoning))
        logprobs = tuple([each for each in delta.logprobs if not each.is_reasoning]) if delta.logprobs else ()
        if delta.text or (logprobs and self.kind is SectionKind.TEXT and not delta.calls):
            pieces.append(self._text(delta.text, logprobs))
        elif logprobs and self.kind is not SectionKind.CALL and not delta.calls:
            self._waiting += logprobs
        if delta.calls:
            pieces += [self._arguments(call) for call in delta.calls]
        return pieces

    def _text(self, text: str, logprobs: tuple[TextLogprob, ...]) -> Piece:
        logprobs, self._waiting = self._waiting + logprobs, ()
        return Piece(self._section(SectionKind.TEXT), SectionKind.TEXT, text, logprobs)

    def _arguments(self, call: CallDelta) -> Piece:
        self._waiting = ()
        number = self._section(SectionKind.CALL, call.index)
        return Piece(number, SectionKind.CALL, call.arguments, (), call.call_id, call.name)

    def _section(self, kind: SectionKind, call: int | None = None) -> int:
        if kind is not self.kind or call != self._call:
            self.number += 1
            self.kind, self._call = kind, call
        return self.number

    def empty_text(self) -> Piece:
        """The text of an answer that has no section and has ended."""
        return self._text("", ())


@dataclass(slots=True)
class Section:
    """All there is of a section; `call_id` and `name` are a call's."""

    kind: SectionKind
    call_id: str = ""
    name: str = ""
    texts: list[str] = field(default_factory=list)
    logprobs: list[TextLogprob] = field(default_factory=list)

    @classmethod
    def begun_by(cls, piece: Piece) -> "Section":
        return cls(piece.kind, piece.call_id, piece.name)

    def add(self, piece: Piece) -> None:
        self.texts.append(piece.text)
        self.logprobs += piece.logprobs

    @property
    def text(self) -> str:
        """A call's arguments, if it is one."""
        return "".join(self.texts)


class Sections:
    """The sections of one choice as they grow.

    What has nothing but text may be appended to `open_texts`, where that is not None: the last section is text then.
    """

    def __init__(self) -> None:
        self.open_texts: list[str] | None = None
        self._cutter = Cutter()
        self._sections: list[Section] = []

    def add(self, delta: ChoiceDelta) -> None:
        """Whatever it has."""
        for piece in self._cutter.cut(delta):
            if piece.number == len(self._sections):
                self._sections.append(Section.begun_by(piece))
            self._sections[-1].add(piece)
        self.open_texts = self._sections[-1].texts if self._cutter.kind is SectionKind.TEXT else None

    def so_far(self) -> list[Section]:
        return self._sections
