from tailrace.measure.simulation.policies.catalog import Bounds, make_planner
from tailrace.scheduler.plan import SampledToken, StepResult
from tailrace.types import Request, SamplingParams

ONE_AT_A_TIME = Bounds(max_running=1)


def _order(policy: str, names: list[str]) -> list[str]:
    """The order in which requests of one token run that wait together; a name begins with its class."""
    planner = make_planner(policy, ONE_AT_A_TIME)
    for number, name in enumerate(names):
        prompt = (number, *range(9))
        planner.add(
            Request(name, prompt, SamplingParams(1, ignore_eos=True), class_name=name.split("-", maxsplit=1)[0])
        )
    order, now_s = [], 1.0
    while planner.has_work:
        plan = planner.plan(now_s)
        assert plan is not None
        order += [entry.request_id for entry in plan.entered]
        sampled = tuple(SampledToken(part.request_id, 7) for part in plan.slices if part.is_sampled)
        now_s += 1.0
        planner.commit(StepResult(plan.step_id, sampled), now_s)
    return order


NAMES = ["bronze-1", "bronze-2", "bronze-3", "silver-1", "gold-1", "gold-2"]


def test_who_comes_first_is_served_first_whatever_its_class() -> None:
    assert _order("fcfs", NAMES) == NAMES


def test_classes_take_turns() -> None:
    assert _order("round-robin", NAMES) == ["bronze-1", "silver-1", "gold-1", "bronze-2", "gold-2", "bronze-3"]
