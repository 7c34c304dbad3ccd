"""Which rows go to which experts, and how that work is shared out: random choices. See expert_plan.cpp."""

from pathlib import Path

from tests.support.native import run

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "program"


def test_every_choice_is_planned_once_and_in_order() -> None:
    run("cmake", "-S", HERE, "-B", BUILD, "-G", "Ninja")
    run("cmake", "--build", BUILD, "--target", "expert_plan")

    assert run(BUILD / "expert_plan")[-1] == "all choices are planned"
