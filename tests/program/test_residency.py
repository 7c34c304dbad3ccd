"""Experts that come and go: whoever waits has what it chose, whoever else goes. See residency.cpp."""

from pathlib import Path

from tests.support.native import built_programs, run

HERE = Path(__file__).parent


def test_whoever_waits_for_experts_has_them() -> None:
    assert run(built_programs(HERE) / "residency")[-1] == "who waits has what it chose"
