"""Threads that share out a step: every piece once, none before its time, nothing touched afterwards. See team.cpp."""

from pathlib import Path

import pytest

from tests.support.native import run

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "program"


@pytest.fixture(scope="module")
def team() -> Path:
    run("cmake", "-S", HERE, "-B", BUILD, "-G", "Ninja")
    run("cmake", "--build", BUILD)
    return BUILD / "team"


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_random_steps_are_shared_out_without_a_race(team: Path, num_threads: int) -> None:
    assert f"on {num_threads} threads" in run(team, str(num_threads))[-1]
