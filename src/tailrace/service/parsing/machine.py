"""The text machine of one choice: what a model writes in, reasoning, answer and calls out, up to a stop string."""

from collections.abc import Sequence

from tailrace.service.parsing.reasoning import ReasoningStage
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment, Stage
from tailrace.service.stop import StopMatcher

__all__ = ["TextMachine"]


class TextMachine:
    """Stages one behind the other: reasoning, calls, stop strings, of which each may be left out.

    Any cutting of the text gives the same segments put together, the same end by a stop string, and at the same place.
    `opened` is the text of the answer that its prompt has: the stages see it first, and its text does not come out. A
    call that it has begun does, with the first text.

    Stop strings are met in the answer alone. One is not met across reasoning or a call, nor if it ends in text that was
    fed as `is_free`. Nothing may be fed after `matched` is set.

    Places are counted in characters of what was fed, behind `opened`. `call_characters` are those of which the markup
    of calls has at least one where it begins: where the stage of calls has let answer out as it is, it does so with all
    that has none of them, and does not see it. With no such characters it sees all text.
    """

    def __init__(
        self,
        reasoning: ReasoningStage | None = None,
        calls: Stage | None = None,
        stop: StopMatcher | None = None,
        *,
        opened: str = "",
        call_characters: frozenset[str] = frozenset(),
    ) -> None:
        self._reasoning = reasoning
        self._calls = calls
        self._stop = stop
        self._call_characters = call_characters
        self._num_fed = 0
        self._num_unseen = -len(opened)  # characters that the stage of reasoning did not see, less those it saw before
        self._num_free = 0  # in these characters no stop string ends
        self._reasoning_end = 0
        self._stop_certain: int | None = None  # the place in front of what the stop strings hold back
        self._begun = _calls_in(self._take_apart(opened))
        # Until all that is opened is decided on, and what it has begun is given out.
        self._is_at_start = bool(self._begun) or self._num_in_stages > 0
        self._is_plain = False  # the stage of calls let the last text out as answer, as it was
        # What becomes of text without any of these characters, at once and as it is; None: that is not known.
        self._passes_as: type[AnswerPiece] | type[ReasoningPiece] | None = None
        self._stopping_characters = frozenset[str]()
        self._expect()

    @property
    def matched(self) -> str | None:
        """The stop string that ended the answer."""
        return None if self._stop is None else self._stop.matched

    @property
    def num_certain(self) -> int:
        """The place up to which all is decided: given out, or dropped as markup. Negative: part of `opened` is not.

        Once a stop string is met, where the text that was given out ends.
        """
        if self._stop_certain is not None:
            return self._stop_certain
        return self._num_fed - self._num_in_stages

    @property
    def num_held(self) -> int:
        return self._num_fed - self.num_certain

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is held, and no stop string is met."""
        return self._stop_certain is None and (self._passes_as is not None or self._num_in_stages == 0)

    @property
    def reasoning_end(self) -> int:
        """The place where the reasoning ends, its tags counted with it; 0 or less: there is none."""
        if self._reasoning is not None:
            return self._reasoning.reasoning_end + self._num_unseen
        return self._reasoning_end

    def feed(self, text: str, *, is_free: bool = False) -> list[Segment]:
        self._num_fed += len(text)
        if is_free:
            self._num_free = self._num_fed
        if self._passes_as is not None and text and self._stopping_characters.isdisjoint(text):
            piece = self._passes_as(text)
            if self._passes_as is ReasoningPiece:
                self._num_unseen += len(text)
            elif self._stop is not None and not self._stop.passes(text):
                return self._searched(self._stop, piece, self._num_fed - len(text))
            return [piece]
        return self._feed_slowly(text)

    def finish(self) -> list[Segment]:
        """What is held when the answer ends here. A stop string may be met in it."""
        start = self._num_fed - self._num_in_stages
        held: list[Segment] = []
        if self._reasoning is not None:
            held += self._through_calls(self._reasoning.finish())
            self._reasoning_end, self._reasoning = self.reasoning_end, None
        if self._calls is not None:
            held += self._calls.finish()
        segments = self._take_begun() + self._checked(held, start)
        if self._stop is not None and self._stop.matched is None:
            segments += self._let_go(self._stop)
        return segments

    @property
    def _num_in_stages(self) -> int:
        num_held = 0 if self._reasoning is None else self._reasoning.num_held
        return num_held if self._calls is None else num_held + self._calls.num_held

    def _feed_slowly(self, text: str) -> list[Segment]:
        if self._is_at_start or (self._stop is not None and self._may_be_stopped(self._stop, text)):
            segments = self._feed_each(text)
        else:
            segments = self._take_apart(text)
        self._expect()
        return segments

    def _expect(self) -> None:
        """Find out what becomes of plain text from here on."""
        self._passes_as = None
        if self._is_at_start or self._num_in_stages:
            return
        if self._reasoning is not None:
            self._stopping_characters = self._reasoning.ending_characters
            self._passes_as = ReasoningPiece if self._reasoning.is_reasoning else None
        elif self._calls is None or (self._is_plain and self._call_characters):
            self._stopping_characters = self._call_characters
            self._passes_as = AnswerPiece

    def _may_be_stopped(self, stop: StopMatcher, text: str) -> bool:
        return not stop.passes(text) or self._num_in_stages > 0

    def _feed_each(self, text: str) -> list[Segment]:
        """One character after the other: then what comes out begins where the text before was decided up to."""
        segments = self._take_begun()
        for place, character in enumerate(text, self._num_fed - len(text)):
            start = place - self._num_in_stages
            segments += self._checked(self._take_apart(character), start)
            if self.matched is not None:
                break
            self._is_at_start = self._is_at_start and place + 1 < self._num_in_stages
        return segments

    def _take_begun(self) -> list[Segment]:
        begun, self._begun = self._begun, []
        return begun

    def _take_apart(self, text: str) -> list[Segment]:
        if self._reasoning is not None:
            return self._through_reasoning(self._reasoning, text)
        if not text:
            return []
        if self._calls is None:
            return [AnswerPiece(text)]
        has_held = self._calls.num_held > 0  # what comes out may be that, though it looks like what went in
        segments = self._calls.feed(text)
        self._is_plain = not has_held and len(segments) == 1 and segments[0] == AnswerPiece(text)
        return segments

    def _through_reasoning(self, reasoning: ReasoningStage, text: str) -> list[Segment]:
        segments = reasoning.feed(text)
        if reasoning.is_over:
            self._reasoning_end, self._reasoning = self.reasoning_end, None
        return self._through_calls(segments)

    def _through_calls(self, segments: list[Segment]) -> list[Segment]:
        if self._calls is None:
            return segments
        through: list[Segment] = []
        for segment in segments:
            if isinstance(segment, AnswerPiece):
                through += self._calls.feed(segment.text)
            else:
                through.append(segment)
        return through

    def _checked(self, segments: Sequence[Segment], start: int) -> list[Segment]:
        """Segments that begin at this place: without what was opened, and up to a stop string."""
        checked: list[Segment] = []
        for segment in segments:
            shown = _behind_opened(segment, start) if start < 0 else segment
            if shown is not None:
                checked += [shown] if self._stop is None else self._searched(self._stop, shown, max(start, 0))
            if self.matched is not None:
                break
            start += _num_written(segment)
        return checked

    def _searched(self, stop: StopMatcher, segment: Segment, start: int) -> list[Segment]:
        if not isinstance(segment, AnswerPiece):
            return [*self._let_go(stop), segment]
        text = segment.text
        num_free = min(max(self._num_free - start, 0), len(text))
        certain = stop.pass_by(text[:num_free]) + stop.feed(text[num_free:])
        self._stop_certain = self._certain_of(stop, start + len(text))
        return [AnswerPiece(certain)] if certain else []

    def _certain_of(self, stop: StopMatcher, end: int) -> int | None:
        """The place where what the stop strings let out ends, of text that ends at `end`; None: it is all out."""
        if stop.matched is not None:
            return end - stop.num_behind - stop.num_cut
        return end - stop.num_held if stop.num_held else None

    def _let_go(self, stop: StopMatcher) -> list[Segment]:
        self._stop_certain = None
        held = stop.finish()
        return [AnswerPiece(held)] if held else []


def _calls_in(segments: Sequence[Segment]) -> list[Segment]:
    return [segment for segment in segments if isinstance(segment, CallBegins | CallGoesOn)]


def _behind_opened(segment: Segment, start: int) -> Segment | None:
    """Without the text in front of place 0; None: there is nothing behind it."""
    if not isinstance(segment, AnswerPiece | ReasoningPiece):
        return segment
    behind = segment.text[-start:]
    return segment._replace(text=behind) if behind else None


def _num_written(segment: Segment) -> int:
    return len(segment.text) if isinstance(segment, AnswerPiece | ReasoningPiece) else 0
