"""Counts what the readers of answers see, and who is refused, whichever front end they come through."""

from tailrace.classes import ServiceClasses
from tailrace.errors import RefusalReason
from tailrace.telemetry.catalogs import answers as answer_catalog
from tailrace.telemetry.catalogs import classes as class_catalog
from tailrace.telemetry.life_metrics import LifeMetrics
from tailrace.telemetry.lives import LifeLog
from tailrace.telemetry.series import Histogram, LabelledHistogram, LabelledNumber, Series

__all__ = ["AnswerCounts", "AnswerMetrics"]

_FRONT_ENDS = ("http", "grpc", "shm")


class AnswerMetrics:
    """Written by the thread of the event loop, which all front ends of a process share."""

    def __init__(self, classes: ServiceClasses, lives: LifeLog, paths: LifeMetrics) -> None:
        names = [each.name for each in classes]
        front_ends = [(front_end,) for front_end in _FRONT_ENDS]
        places = [(front_end, name) for front_end in _FRONT_ENDS for name in names]
        refusals = [(name, reason.value) for name in names for reason in RefusalReason]
        self._gaps = LabelledHistogram(answer_catalog.TOKEN_GAP_SECONDS, [(name,) for name in names])
        self._first_text = LabelledHistogram(answer_catalog.FIRST_TEXT_SECONDS, places)
        self._coalesced = LabelledNumber(answer_catalog.COALESCED_TOKENS, front_ends)
        self._refused = LabelledNumber(class_catalog.REFUSED, refusals)
        self.series: tuple[Series, ...] = tuple(vars(self).values())
        self._lives, self._paths = lives, paths

    def through(self, front_end: str) -> "AnswerCounts":
        """For one of the front ends: http, grpc or shm."""
        return AnswerCounts(
            front_end,
            self._gaps,
            self._first_text,
            self._coalesced,
            self._refused,
            lives=self._lives,
            paths=self._paths,
        )


class AnswerCounts:
    """What one front end counts; `lives` are the requests of all of them."""

    def __init__(
        self,
        front_end: str,
        gaps: LabelledHistogram,
        first_text: LabelledHistogram,
        coalesced: LabelledNumber,
        refused: LabelledNumber,
        *,
        lives: LifeLog,
        paths: LifeMetrics,
    ) -> None:
        self._front_end = front_end
        self._gaps = gaps
        self._coalesced = coalesced
        self._refused = refused
        self._first_text = first_text
        self.lives = lives
        self.first_token = paths.first_token
        self.observe_write, self.observe_client = paths.observer("write"), paths.observer("client")

    def gaps_of(self, class_name: str) -> Histogram:
        """Where the gaps of a class's answers are counted."""
        return self._gaps.of(class_name)

    def first_text_of(self, class_name: str) -> Histogram:
        """Where the waits for the first text of a class's answers are counted."""
        return self._first_text.of(self._front_end, class_name)

    def coalesce(self, num_tokens: int) -> None:
        """So many tokens left with one before them."""
        self._coalesced.add(num_tokens, self._front_end)

    def refuse(self, class_name: str, reason: RefusalReason) -> None:
        """A request of this class was told to come back later."""
        self._refused.add(1, class_name, reason.value)
