"""The time of timed steps, op by op, adds up to what they took."""

import pytest

from tailrace.records import StepProfile
from tailrace.telemetry.ops import OpMetrics
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.series import LabelledNumber
from tailrace.types import OpTime

DECODE = StepProfile(64, 0.010, (OpTime("attention", 0.002, 1e6, 4e6), OpTime("down", 0.006, 8e6, 2e6)))
PROMPT = StepProfile(128, 0.100, (OpTime("attention", 0.090, 2e6, 9e9),), has_prompts=True)


def values_of(metrics: OpMetrics) -> dict[str, dict[tuple[str, ...], float]]:
    return {series.metric.name: series.values for series in metrics.series if isinstance(series, LabelledNumber)}


def test_ops_are_counted_by_kind_of_step() -> None:
    metrics = OpMetrics()
    for profile in (DECODE, DECODE, PROMPT):
        metrics.record(profile)
    values = values_of(metrics)

    assert values["tailrace_op_bytes"] == {
        ("attention", "decode"): 2e6,
        ("down", "decode"): 16e6,
        ("attention", "prompt"): 2e6,
    }
    assert values["tailrace_op_operations"][("attention", "prompt")] == 9e9
    assert values["tailrace_timed_steps"] == {("decode",): 2, ("prompt",): 1}


def test_what_is_in_no_op_lies_between() -> None:
    metrics = OpMetrics()
    for profile in (DECODE, PROMPT):
        metrics.record(profile)
    values = values_of(metrics)
    seconds = values["tailrace_op_seconds"]

    assert seconds[("between", "decode")] == pytest.approx(0.002)
    for step in ("decode", "prompt"):
        of_ops = sum(value for (_, of), value in seconds.items() if of == step)
        assert of_ops == pytest.approx(values["tailrace_timed_step_seconds"][(step,)])


def test_a_server_shows_what_several_processes_counted() -> None:
    engine, other = (Metrics(model_name="m", version="0") for _ in range(2))
    engine.record(DECODE)
    text = other.with_others([engine.snapshot()]).render("")[0].decode()

    assert 'tailrace_op_seconds_total{op="down",step="decode"} 0.006' in text
    assert 'tailrace_timed_steps_total{step="decode"} 1.0' in text
