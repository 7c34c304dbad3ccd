"""A frame shows what its parts say."""

from typing import Any

import msgspec
import pytest

from tailrace.classes import STANDARD
from tailrace.frontends.http.console.frames import FrameMaker
from tailrace.frontends.http.status import OneProcess
from tailrace.telemetry import roofline_position as position
from tailrace.telemetry.feed.builder import FrameBuilder, ServerFacts
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.roofline_position import RooflinePosition
from tests.support.attributed import SERVED, at_first, ten_seconds_later

FACTS = ServerFacts("model", "1.2.3", budget_tokens=512, num_api_processes=1, started_s=0.0)


async def frames(metrics: Metrics, shown: RooflinePosition | None) -> list[dict[str, Any]]:
    """Two, one after the other."""
    maker = FrameMaker(OneProcess(metrics), FrameBuilder(FACTS, lambda: STANDARD), lambda: True, shown)
    return [msgspec.json.decode(await maker.make()) for _ in range(2)]


async def test_where_the_server_lies_under_the_ceilings(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [at_first(), ten_seconds_later()]
    monkeypatch.setattr(position, "read_attribution", lambda *_: readings.pop(0))
    first, second = await frames(metrics, RooflinePosition(lambda: SERVED))

    assert first["roofline"] is None
    assert second["roofline"]["binds"] == "memory"
    assert second["roofline"]["ops"][0] == {
        "name": "down",
        "time_share": 0.75,
        "memory_share": pytest.approx(0.8),
        "compute_share": pytest.approx(0.1),
    }


async def test_without_a_position_there_is_none(metrics: Metrics) -> None:
    assert [frame["roofline"] for frame in await frames(metrics, None)] == [None, None]
