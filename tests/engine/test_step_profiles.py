"""Timing the ops of steps, on real weights, changes no token, and explains the whole time of a step."""

import pytest

from tailrace.ops.op_kinds import OpKind
from tailrace.records import StepProfile
from tailrace.telemetry.ops import OpMetrics
from tailrace.telemetry.series import LabelledNumber
from tailrace.types import Request, SamplingParams
from tests.engine.harness import Harness, MakeHarness

SAMPLINGS = (SamplingParams(max_tokens=8, temperature=0.0), SamplingParams(max_tokens=8, temperature=0.9, seed=3))
REQUESTS = [
    Request(f"r{number}", range(20 + 30 * number, 60 + 50 * number), sampling)
    for number, sampling in enumerate(SAMPLINGS)
]


@pytest.fixture
def timed(make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setattr("tailrace.runtime.runner.TIMED_EVERY", 1)
    return make_harness(budget_tokens=64)


def test_timed_steps_draw_the_same_tokens(timed: Harness, make_harness: MakeHarness) -> None:
    answers = timed.run(REQUESTS)
    timed_ids = [record.step_id for record in timed.records if isinstance(record, StepProfile)]

    assert timed_ids == [step.step_id for step in timed.steps]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tailrace.runtime.runner.TIMED_EVERY", 1_000_000)
        untimed = make_harness(budget_tokens=64)
        assert untimed.run(REQUESTS) == answers
        assert not any(isinstance(record, StepProfile) for record in untimed.records)


def test_the_parts_of_a_step_add_up(timed: Harness) -> None:
    timed.run(REQUESTS)
    profiles = [record for record in timed.records if isinstance(record, StepProfile)]
    metrics = OpMetrics()
    for profile in profiles:
        metrics.record(profile)
    totals = {
        series.metric.name: sum(series.values.values())
        for series in metrics.series
        if isinstance(series, LabelledNumber)
    }

    assert {profile.has_prompts for profile in profiles} == {True, False}
    assert all(sum(op.seconds for op in profile.ops) <= profile.compute_s for profile in profiles)
    assert totals["tailrace_op_seconds"] == pytest.approx(totals["tailrace_timed_step_seconds"], rel=0.02)
    assert {op.name for profile in profiles for op in profile.ops} >= {OpKind.ATTENTION, OpKind.HEAD, OpKind.SAMPLING}
