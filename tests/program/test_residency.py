"""Experts that come and go: whoever waits has what it chose, whoever else goes. See residency.cpp."""

from pathlib import Path

from tests.support.native import run

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "program"


def test_whoever_waits_for_experts_has_them() -> None:
    run("cmake", "-S", HERE, "-B", BUILD, "-G", "Ninja")
    run("cmake", "--build", BUILD, "--target", "residency")

    assert run(BUILD / "residency")[-1] == "who waits has what it chose"
