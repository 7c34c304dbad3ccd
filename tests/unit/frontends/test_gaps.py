"""What the clock of an answer counts, by a time that the test sets."""

import time

import pytest

from tailrace.frontends.gaps import GapClock
from tailrace.service.api import ChoiceDelta
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.series import LabelledHistogram, LabelledNumber
from tailrace.types import Beginning
from tests.support.following import make_life
from tests.support.scripted_service import finish, token


class Reading:
    """An answer, and the time that passes while it is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, num_choices: int = 1, *, is_streamed: bool = True) -> None:
        self.now_s = 10.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        self.metrics = Metrics(model_name="tiny", version="0")
        self.life = make_life(accepted_s=10.0)
        self.clock = GapClock(self.metrics.http.answers, self.life, num_choices, is_streamed=is_streamed)

    def piece(self, *deltas: ChoiceDelta, after_s: float = 0.0, write_s: float = 0.0) -> None:
        self.now_s += after_s
        for delta in deltas:
            self.clock.tick(delta)
        self.now_s += write_s
        self.clock.wrote(deltas)

    def begin(self) -> None:
        """The first choice has text now."""
        self.life.beginning = Beginning(self.now_s, self.now_s, self.now_s)
        self.life.received_s = self.life.text_s = self.now_s

    def values(self, name: str) -> dict[str, float]:
        series = {each.metric.name: each for each in self.metrics.paths.series}[f"tailrace_token_path_{name}"]
        assert isinstance(series, LabelledNumber)
        return {labels[0]: value for labels, value in series.values.items() if value}

    @property
    def num_first_tokens(self) -> float:
        (series,) = [each for each in self.metrics.paths.series if each.metric.name == "tailrace_first_tokens"]
        return series.value  # type: ignore[union-attr]  # it has no labels


def gaps_of(reading: Reading) -> tuple[int, float]:
    """How many there are, and their sum."""
    (series,) = [each for each in reading.metrics.answers.series if "inter_token" in each.metric.name]
    assert isinstance(series, LabelledHistogram)
    histogram = series.of("silver")
    return sum(histogram.counts), histogram.sum


def test_gaps_are_those_between_pieces_of_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch, num_choices=2)
    reading.piece(token("a"), token("b", 1), after_s=1.0)
    reading.piece(token("c"), after_s=0.25)
    reading.piece(token("d", 1), after_s=0.5)
    reading.piece(finish(0), finish(1), after_s=9.0)
    assert gaps_of(reading) == (2, 0.25 + 0.75)


def test_the_first_piece_of_the_choice_that_is_followed_ends_the_way_of_its_first_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch, num_choices=2)
    reading.piece(token("b", 1), write_s=0.25)
    assert (reading.life.written_s, reading.num_first_tokens) == (None, 0)
    reading.begin()
    reading.piece(token("a"), write_s=0.5)
    reading.piece(token("a"), write_s=0.5)
    reading.clock.ended()
    assert (reading.life.written_s, reading.num_first_tokens) == (10.75, 1)


def test_an_answer_of_one_piece_has_a_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.begin()
    reading.clock.tick(token("a"))
    reading.now_s += 0.5
    reading.clock.ended()
    assert (reading.life.written_s, reading.num_first_tokens) == (10.5, 1)


def test_of_what_leaves_as_a_whole_nothing_is_written_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch, is_streamed=False)
    reading.now_s += 1.0
    reading.begin()
    reading.now_s += 5.0
    reading.clock.ended()
    assert (reading.life.written_s, reading.num_first_tokens) == (11.0, 1)


def test_of_an_answer_without_a_token_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.piece(finish())
    reading.clock.ended()
    assert (reading.life.written_s, reading.num_first_tokens) == (None, 0)


def test_one_piece_in_sixteen_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.begin()
    for _ in range(1 + 16 * 3 + 15):
        reading.piece(ChoiceDelta(0, "ab", token_ids=(1, 2)), after_s=1.0, write_s=0.0005)
    assert reading.values("pieces") == {"write": 4}
    assert reading.values("tokens") == {"write": 8}
    assert reading.values("seconds") == pytest.approx({"write": 4 * 0.0005})


def test_what_takes_long_to_write_waits_for_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    reading.begin()
    for _ in range(1 + 16):
        reading.piece(token("a"), after_s=1.0, write_s=2.0)
    assert reading.values("seconds") == {"client": 2.0}
    assert reading.values("pieces") == reading.values("tokens") == {"client": 1}
