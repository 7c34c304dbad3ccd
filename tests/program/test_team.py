"""Threads that share out a step: every piece once, none before its time, nothing touched afterwards. See team.cpp."""

from pathlib import Path

import pytest

from tests.support.native import built_programs, run

HERE = Path(__file__).parent


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_random_steps_are_shared_out_without_a_race(num_threads: int) -> None:
    assert f"on {num_threads} threads" in run(built_programs(HERE) / "team", str(num_threads))[-1]
