import pytest

from tailrace.classes import STANDARD, ServiceClass, ServiceClasses
from tailrace.engine.intake import IntakeConfig
from tailrace.errors import EngineError, RefusalReason
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.cost import NoisyCost
from tailrace.measure.simulation.engine import SimulatedEngine
from tailrace.measure.simulation.outcome import Outcome
from tailrace.measure.simulation.policies.batching import Batcher, FixedSize, LongestLength
from tailrace.measure.simulation.policies.catalog import POLICIES, Bounds, make_planner, one_class
from tailrace.scheduler.plan import StepPlan
from tailrace.types import Request
from tests.support.costs import constant_cost

SECOND_A_STEP = NoisyCost(constant_cost(1.0), sigma=0.0, seed=0)
PATIENT = STANDARD.scaled(1000.0)
INTAKE = IntakeConfig(100, 100_000, 8192, classes=one_class(PATIENT))


def _arrivals(*times_s: float, num_output_tokens: int = 3) -> list[Arrival]:
    return [Arrival(f"r{index}", at_s, 10, num_output_tokens, "bronze", "t") for index, at_s in enumerate(times_s)]


def _run(policy: str, arrivals: list[Arrival], intake: IntakeConfig = INTAKE) -> Outcome:
    return SimulatedEngine(make_planner(policy, Bounds(classes=PATIENT)), SECOND_A_STEP, intake).run(arrivals)


def test_tokens_come_when_the_steps_that_compute_them_end() -> None:
    run = _run("fcfs", _arrivals(5.0, 6.5))
    assert run.served["r0"].token_s == [6.0, 7.0, 8.0]
    assert run.served["r1"].token_s == [8.0, 9.0, 10.0]  # came during a step, and joined the next
    assert run.num_steps == 5
    assert run.busy_s == 5.0


@pytest.mark.parametrize("policy", POLICIES)
def test_every_request_gets_its_tokens_in_order_of_time(policy: str) -> None:
    arrivals = _arrivals(*(0.3 * number for number in range(80)), num_output_tokens=7)
    run = _run(policy, arrivals)
    for one in run.served.values():
        assert one.is_complete
        assert len(one.token_s) == 7
        assert one.arrival.at_s < one.token_s[0]
        assert one.token_s == sorted(one.token_s)


def test_who_finds_the_queue_full_is_refused_and_gets_no_token() -> None:
    run = _run("static", _arrivals(*[0.0] * 40), IntakeConfig(36, 100_000, 8192, classes=one_class(PATIENT)))
    refused = [one for one in run.served.values() if one.refused_for is RefusalReason.QUEUE_FULL]
    assert len(refused) == 4
    assert not any(one.token_s for one in refused)
    assert sum(one.is_complete for one in run.served.values()) == 36


def test_blocks_are_held_while_requests_run() -> None:
    run = _run("fcfs", _arrivals(0.0))
    assert run.num_held_blocks_s / run.busy_s == pytest.approx(2 / 3, abs=0.4)
    assert run.num_blocks_total == Bounds().num_blocks


def test_who_comes_during_a_step_has_waited_since_then() -> None:
    arrived_s = []

    class Noting(Batcher):
        def add(self, request: Request) -> None:
            arrived_s.append(request.arrival_s)
            super().add(request)

    noting = Noting(FixedSize(1, 0.0), LongestLength(), 10, 16)
    SimulatedEngine(noting, SECOND_A_STEP, INTAKE).run(_arrivals(0.0, 0.3, 0.6))
    assert arrived_s == [0.0, 0.3, 0.6]


def test_a_plan_maker_that_forgets_a_request_is_found_out() -> None:
    class Forgetful(Batcher):
        def add(self, request: Request) -> None:
            pass

    forgetful = Forgetful(FixedSize(1, 0.0), LongestLength(), 10, 16)
    with pytest.raises(EngineError, match="1 requests got no answer"):
        SimulatedEngine(forgetful, SECOND_A_STEP, INTAKE).run(_arrivals(0.0))


def test_a_plan_maker_that_never_plans_is_found_out() -> None:
    class Idle(Batcher):
        def plan(self, now_s: float) -> StepPlan | None:
            return None

    idle = Idle(FixedSize(1, 0.0), LongestLength(), 10, 16)
    with pytest.raises(EngineError, match="has work and makes no step"):
        SimulatedEngine(idle, SECOND_A_STEP, INTAKE).run(_arrivals(0.0))


def test_who_waits_for_longer_than_its_class_allows_is_given_up() -> None:
    hasty = ServiceClass("bronze", 1.0, ttft_s=1e6, itl_s=1e6, min_share=0.0, queue_ttl_s=5.0)
    classes = ServiceClasses((hasty,), "bronze")
    planner = make_planner("tailrace", Bounds(max_running=1, classes=classes))
    outcome = SimulatedEngine(planner, SECOND_A_STEP, INTAKE).run(_arrivals(0.0, 0.5, num_output_tokens=20))
    assert outcome.served["r0"].is_complete
    assert outcome.served["r1"].refused_for is RefusalReason.QUEUE_TIMEOUT


def test_what_the_scheduler_predicted_of_steps_is_compared_with_what_they_took() -> None:
    planner = make_planner("tailrace", Bounds(classes=PATIENT), constant_cost(1.5))
    outcome = SimulatedEngine(planner, SECOND_A_STEP, INTAKE).run(_arrivals(0.0))
    assert outcome.step_errors[0] == pytest.approx(0.5)
