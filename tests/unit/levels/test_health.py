"""What an operator reads in the log of how a level is: the last line says it."""

import logging

import pytest

from tailrace.levels.health import LevelHealth, Part
from tailrace.records import EventKind
from tailrace.types import Level

DOWN = "the redis level is down, requests go on without it: gone"
READ_ONLY = "the redis level is read, but nothing can be written to it: full"
WELL = "the redis level works again"


@pytest.fixture
def health(caplog: pytest.LogCaptureFixture) -> LevelHealth:
    caplog.set_level(logging.WARNING)
    return LevelHealth(Level.REDIS)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_outage_that_several_notice_is_one_line_and_one_when_the_last_is_well(
    health: LevelHealth, caplog: pytest.LogCaptureFixture
) -> None:
    health.down(Part.LOG, "gone")
    health.down(Part.READING, "gone")
    health.down(Part.READING, "still gone")
    health.up(Part.LOG)
    assert lines(caplog) == [DOWN]
    assert not health.is_well
    health.up(Part.READING)
    assert lines(caplog) == [DOWN, WELL]
    assert health.is_well


def test_what_is_well_already_is_not_said_to_be_well_again(
    health: LevelHealth, caplog: pytest.LogCaptureFixture
) -> None:
    for part in Part:
        health.up(part)
    assert lines(caplog) == []
    assert health.is_well


def test_a_level_that_cannot_be_written_to_is_not_well_because_it_is_read(
    health: LevelHealth, caplog: pytest.LogCaptureFixture
) -> None:
    health.down(Part.WRITING, "full")
    health.down(Part.READING, "gone")
    health.up(Part.READING)
    assert lines(caplog) == [READ_ONLY, DOWN, READ_ONLY]
    health.up(Part.WRITING)
    assert lines(caplog)[3:] == [WELL]


def test_who_listens_hears_the_same_as_the_log(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[EventKind, str]] = []
    health = LevelHealth(Level.REDIS, lambda kind, message: told.append((kind, message)))
    health.down(Part.WRITING, "full")
    health.down(Part.READING, "gone")
    health.up(Part.READING)
    health.up(Part.WRITING)
    assert told == [
        (EventKind.LEVEL_DOWN, READ_ONLY),
        (EventKind.LEVEL_DOWN, DOWN),
        (EventKind.LEVEL_DOWN, READ_ONLY),
        (EventKind.LEVEL_UP, WELL),
    ]
    assert [message for _, message in told] == lines(caplog)
