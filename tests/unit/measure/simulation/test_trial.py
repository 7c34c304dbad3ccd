import pytest

from tailrace.measure.simulation.arrivals import Mix, from_trace, mean_rate
from tailrace.measure.simulation.cost import default_cost
from tailrace.measure.simulation.policies.catalog import POLICIES, Bounds
from tailrace.measure.simulation.trace import conversations
from tailrace.measure.simulation.trial import Load, Trial
from tailrace.scheduler.plan import StepSize

ARRIVALS = from_trace(conversations()[:150], Mix({"gold": 20, "silver": 50, "bronze": 30}), 16)
TRIAL = Trial(ARRIVALS, default_cost(), Bounds())


@pytest.fixture(scope="module")
def capacity() -> float:
    return TRIAL.capacity()


def test_capacity_is_what_the_machine_can_do(capacity: float) -> None:
    num_tokens = sum(one.num_prompt_tokens + one.num_output_tokens for one in ARRIVALS) / len(ARRIVALS)
    full_s = TRIAL.cost.predict(StepSize(512, 32, 512 * 64))
    assert full_s is not None
    assert 0.5 < capacity * num_tokens * full_s / 512 < 1.3


def test_a_load_is_a_share_of_the_capacity(capacity: float) -> None:
    assert mean_rate(TRIAL.loaded(Load(0.5), capacity).arrivals) == pytest.approx(0.5 * capacity)
    quiet = TRIAL.loaded(Load(0.5, "burst"), capacity).arrivals[:60]
    assert mean_rate(quiet) == pytest.approx(0.5 * capacity, rel=0.4)


def test_under_a_light_load_the_scheduler_keeps_up(capacity: float) -> None:
    report = TRIAL.loaded(Load(0.5), capacity).run("tailrace")
    assert report.requests_per_s == pytest.approx(0.5 * capacity, rel=0.15)
    assert report.padding_share == 0.0
    assert not report.refused


@pytest.mark.parametrize("policy", POLICIES)
def test_a_seed_repeats_every_figure(policy: str, capacity: float) -> None:
    trial = TRIAL.loaded(Load(1.2), capacity)
    assert trial.run(policy) == trial.run(policy)


def test_padding_costs_the_old_policies_throughput(capacity: float) -> None:
    trial = TRIAL.loaded(Load(1.0), capacity)
    static, dynamic, ours = (trial.run(policy) for policy in ("static", "dynamic-length", "tailrace"))
    assert static.padding_share > dynamic.padding_share > ours.padding_share == 0.0
    assert static.requests_per_s < dynamic.requests_per_s < ours.requests_per_s
