"""Which rows go to which experts, and how that work is shared out: random choices. See expert_plan.cpp."""

from pathlib import Path

from tests.support.native import built_programs, run

HERE = Path(__file__).parent


def test_every_choice_is_planned_once_and_in_order() -> None:
    assert run(built_programs(HERE) / "expert_plan")[-1] == "all choices are planned"
