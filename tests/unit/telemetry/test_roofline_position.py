"""Where a server lies under the ceilings of its machine, as its console shows it."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tailrace.telemetry import roofline_position as position
from tailrace.telemetry.attribution_reading import AttributionReading, ServedOn
from tailrace.telemetry.readings import Reading
from tailrace.telemetry.roofline_position import RooflinePosition
from tests.support.attributed import SERVED, at_first, ten_seconds_later

SUMS = Reading(0.0, [])  # what is made of them is scripted


class Server:
    """Says one reading after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *readings: AttributionReading) -> None:
        self._readings: Iterator[AttributionReading] = iter(readings)
        monkeypatch.setattr(position, "read_attribution", self._read)

    def _read(self, _sums: Reading, served: ServedOn) -> AttributionReading:
        return replace(next(self._readings), served=served)


def test_it_is_the_attribution_of_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, at_first(), ten_seconds_later())
    shown = RooflinePosition(lambda: SERVED)
    assert shown.line(SUMS) is None, "there is nothing to compare with"
    line = shown.line(SUMS)
    assert line is not None
    assert (line.memory_share, line.compute_share) == pytest.approx((0.65, 0.175))
    assert line.binds == "memory"
    assert [(op.name, round(op.time_share, 6)) for op in line.ops] == [
        ("down", 0.75),
        ("attention", 0.2),
        ("between", 0.05),
    ]
    assert line.ops[1].compute_share == pytest.approx(0.5)


def test_without_ceilings_there_is_none_and_once_they_are_measured_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, at_first(), ten_seconds_later(), replace(ten_seconds_later(), at_s=111.0))
    known = [replace(SERVED, ceilings=None)] * 2 + [SERVED]
    shown = RooflinePosition(lambda: known.pop(0))
    assert [shown.line(SUMS) is None for _ in range(3)] == [True, True, False]


def test_what_is_a_minute_old_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    later = replace(ten_seconds_later(), at_s=165.0, timed={})
    Server(monkeypatch, at_first(), ten_seconds_later(), later, replace(later, at_s=166.0))
    shown = RooflinePosition(lambda: SERVED)
    assert [shown.line(SUMS) is None for _ in range(4)] == [True, False, True, True]


def test_another_engine_is_not_compared_with_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, at_first(), replace(ten_seconds_later(), engine_pid=9))
    shown = RooflinePosition(lambda: SERVED)
    assert [shown.line(SUMS) for _ in range(2)] == [None, None]
