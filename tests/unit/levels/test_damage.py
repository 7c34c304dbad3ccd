"""Damage is said at once, and never floods the log."""

import pytest

from tailrace.levels.damage import Damage


def test_the_first_is_said_at_once_and_the_others_once_a_minute_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0
    damage = Damage("/somewhere", clock=lambda: now_s)
    damage.found()
    now_s = 59.0
    damage.found()
    assert [record.getMessage() for record in caplog.records] == [
        "a KV block in /somewhere is damaged and was dropped, 1 since the start: what they held is computed again"
    ]
    now_s = 60.0
    damage.found()
    assert len(caplog.records) == 2
    assert "3 since the start" in caplog.text
    assert damage.num_blocks == 3
