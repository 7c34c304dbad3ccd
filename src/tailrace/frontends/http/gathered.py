"""Deltas gathered into whole choices, for clients that do not stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tailrace.errors import EngineError
from tailrace.frontends.ends import check_end
from tailrace.frontends.sections import Section, SectionKind, Sections
from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.types import FinishReason

__all__ = ["Gathered", "WholeChoice"]


@dataclass(frozen=True, slots=True)
class WholeChoice:
    """`sections` are its reasoning, text and calls in their order. `logprobs` are of all tokens."""

    sections: Sequence[Section]
    logprobs: Sequence[TextLogprob]
    finish_reason: FinishReason
    stop_reason: str | int | None

    @property
    def text(self) -> str:
        return self._all(SectionKind.TEXT)

    @property
    def reasoning(self) -> str:
        return self._all(SectionKind.REASONING)

    @property
    def calls(self) -> list[Section]:
        return [section for section in self.sections if section.kind is SectionKind.CALL]

    def without_reasoning(self) -> "WholeChoice":
        """What remains for who does not want to see it."""
        sections = [section for section in self.sections if section.kind is not SectionKind.REASONING]
        return replace(self, sections=sections, logprobs=[each for each in self.logprobs if not each.is_reasoning])

    def _all(self, kind: SectionKind) -> str:
        return "".join([section.text for section in self.sections if section.kind is kind])


@dataclass(slots=True)
class _Growing:
    sections: Sections = field(default_factory=Sections)
    logprobs: list[TextLogprob] = field(default_factory=list)
    end: ChoiceDelta | None = None


class Gathered:
    """The choices of an answer as they grow."""

    def __init__(self, num_choices: int) -> None:
        self._choices = [_Growing() for _ in range(num_choices)]

    def add(self, delta: ChoiceDelta) -> None:
        """Raises when the choice failed."""
        choice = self._choices[delta.index]
        texts = choice.sections.open_texts
        if texts is None or delta.reasoning or delta.calls or delta.logprobs:
            choice.sections.add(delta)
            choice.logprobs += delta.logprobs
        else:  # as nearly all are
            texts.append(delta.text)
        if delta.finish_reason is not None:
            check_end(delta)
            choice.end = delta

    def choices(self) -> list[WholeChoice]:
        """Raises EngineError if one is not finished."""
        return [_whole(choice) for choice in self._choices]


def _whole(choice: _Growing) -> WholeChoice:
    end = choice.end
    if end is None or end.finish_reason is None:
        raise EngineError("the stream ended before all of its choices did")
    return WholeChoice(choice.sections.so_far(), choice.logprobs, end.finish_reason, end.stop_reason)
