"""Threads that share out a step: every piece once, none before its time, nothing touched afterwards. See team.cpp."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "program"
TOOLS = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path) -> str:
    done = subprocess.run(command, env=TOOLS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def team() -> Path:
    run("cmake", "-S", HERE, "-B", BUILD, "-G", "Ninja")
    run("cmake", "--build", BUILD)
    return BUILD / "team"


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_random_steps_are_shared_out_without_a_race(team: Path, num_threads: int) -> None:
    assert f"on {num_threads} threads" in run(team, str(num_threads))
