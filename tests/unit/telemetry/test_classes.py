"""What is counted of each class, and of what keeps its targets; values computed by hand."""

from dataclasses import replace

import pytest

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.errors import RefusalReason
from tailrace.records import LoadRecord, PoolRecord, PreemptionCount, RequestRecord, StepRecord
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason, PreemptionCause
from tests.support.beginnings import beginning_of

STEP = StepRecord(
    step_id=1,
    started_s=10.0,
    planned_s=10.25,
    computed_s=11.25,
    finished_s=11.5,
    num_tokens=8,
    num_sampled=2,
    num_prefill_tokens=6,
    num_context_tokens=8,
    num_read_tokens=8,
    num_running=3,
    num_waiting=9,
    num_preempted=0,
    num_blocks_used=6,
    num_blocks_cached=2,
    num_blocks_total=10,
    pool=PoolRecord(),
    predicted_s=0.75,
    running_by_class=(2, 0, 1),
    waiting_by_class=(0, 4, 5),
    target_scale=2.5,
    max_running=48,
    pace=0.8,
)
GOOD = RequestRecord(
    "a",
    arrived_s=1.0,
    started_s=1.5,
    first_token_s=2.0,
    finished_s=4.0,
    num_prompt_tokens=8,
    prefix=None,
    num_output_tokens=41,
    num_preemptions=0,
    finish_reason=FinishReason.STOP,
    class_name="gold",
    ttft_target_s=1.0,
    itl_target_s=0.1,
    num_late_tokens=2,
)
GONE = replace(
    GOOD, first_token_s=None, num_output_tokens=0, num_late_tokens=0, finish_reason=FinishReason.ABORT
)  # 3 s after it arrived


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(model_name="tiny", version="0")


def samples(metrics: Metrics) -> dict[str, float]:
    own = ("#", "tailrace_process_", "process_")  # a process's time goes on by itself
    lines = [line for line in metrics.render("")[0].decode().splitlines() if not line.startswith(own)]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def of_gold(metrics: Metrics, name: str) -> float:
    return samples(metrics)[f'tailrace_{name}{{class="gold"}}']


def test_load_is_shown_by_class_and_in_all(metrics: Metrics) -> None:
    metrics.record(STEP)
    shown = samples(metrics)
    assert [shown[f'tailrace_class_requests_running{{class="{each.name}"}}'] for each in STANDARD] == [2, 0, 1]
    assert [shown[f'tailrace_class_requests_waiting{{class="{each.name}"}}'] for each in STANDARD] == [0, 4, 5]
    assert shown['vllm:num_requests_waiting{engine="0",model_name="tiny"}'] == 9

    metrics.record(LoadRecord(0, 1, 0, 0, 10, PoolRecord(), (0, 0, 0), (0, 0, 1)))
    shown = samples(metrics)
    assert shown['tailrace_class_requests_running{class="gold"}'] == 0
    assert shown['tailrace_class_requests_waiting{class="bronze"}'] == 1


def test_what_holds_before_the_first_step_is_shown(metrics: Metrics) -> None:
    metrics.engine.control.begin(target_scale=1.5, max_running=8)
    shown = samples(metrics)
    assert shown['tailrace_class_target_seconds{class="gold",target="first_token"}'] == pytest.approx(1.5 * 1.0)
    assert shown['tailrace_class_target_seconds{class="gold",target="token_gap"}'] == pytest.approx(1.5 * 0.05)
    assert shown["tailrace_target_scale_ratio"] == 1.5
    assert shown["tailrace_requests_running_limit"] == 8


def test_what_keeps_targets_is_shown(metrics: Metrics) -> None:
    metrics.record(STEP)
    metrics.record(STEP._replace(predicted_s=1.05, max_running=None, pace=None))
    metrics.record(STEP._replace(predicted_s=None, max_running=None, pace=None))
    shown = samples(metrics)
    assert shown["tailrace_target_scale_ratio"] == 2.5
    assert shown['tailrace_class_target_seconds{class="gold",target="first_token"}'] == pytest.approx(2.5 * 1.0)
    assert shown["tailrace_requests_running_limit"] == 48
    assert shown["tailrace_step_pace_ratio"] == 0.8
    assert shown["tailrace_step_prediction_error_ratio_count"] == 2
    assert shown["tailrace_step_prediction_error_ratio_sum"] == pytest.approx(0.25 + 0.05)
    assert shown['tailrace_step_prediction_error_ratio_bucket{le="0.1"}'] == 1


def test_what_was_preempted_is_shown_by_class_and_cause(metrics: Metrics) -> None:
    for num_lost in (0, 40):
        counts = (
            PreemptionCount("bronze", PreemptionCause.DEADLINE, 3, num_lost),
            PreemptionCount("gold", PreemptionCause.ROOM, 1),
        )
        metrics.record(STEP._replace(num_preempted=4, preemptions=counts))
    shown = samples(metrics)
    assert shown['tailrace_requests_preempted_total{cause="deadline",class="bronze"}'] == 3
    assert shown['tailrace_tokens_recomputed_total{cause="deadline",class="bronze"}'] == 40
    assert shown['tailrace_requests_preempted_total{cause="room",class="gold"}'] == 1
    assert shown['tailrace_requests_preempted_total{cause="room",class="silver"}'] == 0
    assert shown["tailrace_preemptions_total"] == 4


def test_the_figures_of_a_request_are_those_of_its_class(metrics: Metrics) -> None:
    for request in (GOOD, replace(GOOD, class_name="bronze", first_token_s=3.0), replace(GOOD, class_name="")):
        metrics.record(beginning_of(request))
        metrics.record(request)
    shown = samples(metrics)
    for name, count in (("gold", 1), ("silver", 1), ("bronze", 1)):
        assert shown[f'tailrace_requests_finished_total{{class="{name}",finished_reason="stop"}}'] == count
        assert shown[f'tailrace_time_to_first_token_seconds_count{{class="{name}"}}'] == 1
        assert shown[f'tailrace_request_queue_seconds_sum{{class="{name}"}}'] == 0.5
        assert shown[f'tailrace_output_tokens_total{{class="{name}"}}'] == 41
        assert shown[f'tailrace_output_tokens_late_total{{class="{name}"}}'] == 2
    assert shown['tailrace_time_to_first_token_seconds_sum{class="bronze"}'] == 2
    assert shown['tailrace_request_time_per_output_token_seconds_sum{class="gold"}'] == 2 / 40
    assert shown['vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"}'] == 1 + 2 + 1
    assert shown['vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="tiny"}'] == 2
    assert shown['vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"}'] == 3


@pytest.mark.parametrize(
    ("request_record", "on", "off"),
    [
        (GOOD, 1, 0),
        (replace(GOOD, num_late_tokens=3), 0, 1),  # more than 5 of 100
        (replace(GOOD, first_token_s=2.5), 0, 1),
        (replace(GOOD, finish_reason=FinishReason.ABORT), 1, 0),
        (replace(GONE, finish_reason=FinishReason.ERROR), 0, 1),
        (GONE, 0, 1),  # it left when its first token was overdue
        (replace(GONE, ttft_target_s=3.0), 0, 0),
        (replace(GONE, ttft_target_s=None), 0, 0),
        (replace(GONE, refused_for=RefusalReason.QUEUE_TIMEOUT, finish_reason=FinishReason.ERROR), 0, 0),
        (replace(GOOD, is_warmup=True), 0, 0),
    ],
)
def test_a_request_is_on_target_or_off_it_or_neither(
    metrics: Metrics, request_record: RequestRecord, on: int, off: int
) -> None:
    metrics.record(request_record)
    assert of_gold(metrics, "requests_on_target_total") == on
    assert of_gold(metrics, "requests_off_target_total") == off


def test_who_was_refused_did_not_finish(metrics: Metrics) -> None:
    before = samples(metrics)
    metrics.record(replace(GONE, refused_for=RefusalReason.QUEUE_TIMEOUT, finish_reason=FinishReason.ERROR))
    after = samples(metrics)
    assert {name for name in after if name.startswith(("tailrace", "vllm")) and after[name] != before[name]} == set()


def test_of_a_request_that_another_engine_began_only_what_is_known_counts(metrics: Metrics) -> None:
    """Its first token came long ago, when nobody here had heard of it."""
    late = replace(GOOD, started_s=9.0, first_token_s=10.0, finished_s=12.0, num_resumed_tokens=30)
    metrics.record(late)
    shown = samples(metrics)
    assert shown['tailrace_requests_finished_total{class="gold",finished_reason="stop"}'] == 1
    assert shown['tailrace_request_seconds_sum{class="gold"}'] == 11
    assert shown['tailrace_output_tokens_total{class="gold"}'] == 41
    assert of_gold(metrics, "requests_on_target_total") == 1
    for name in (
        "time_to_first_token_seconds",
        "request_queue_seconds",
        "request_prefill_seconds",
        "request_decode_seconds",
        "request_inference_seconds",
        "request_time_per_output_token_seconds",
    ):
        assert shown[f'tailrace_{name}_count{{class="gold"}}'] == 0, name
    assert of_gold(metrics, "requests_admitted_total") == 0


def test_figures_of_a_traced_request_lead_to_its_trace(metrics: Metrics) -> None:
    traced = replace(GOOD, trace=f"00-{'a' * 32}-{'b' * 16}-01")
    metrics.record(beginning_of(traced))
    metrics.record(traced)
    metrics.record(beginning_of(GOOD))
    text = metrics.render("application/openmetrics-text")[0].decode()
    found = {line.split("{")[0]: line.split(" # ")[1] for line in text.splitlines() if " # {" in line}
    assert {name for name in found if name.startswith("tailrace_")} == {
        f"tailrace_{name}_seconds_bucket"
        for name in (
            "time_to_first_token",
            "request_queue",
            "request_prefill",
            "request_decode",
            "request_inference",
            "request_time_per_output_token",
            "request",
        )
    }
    assert all(exemplar.startswith(f'{{trace_id="{"a" * 32}"}} ') for exemplar in found.values())


def test_labels_are_the_configured_classes_and_no_others() -> None:
    metrics = Metrics(model_name="tiny", version="0", classes=ServiceClasses(STANDARD.classes[:2], "gold"))
    metrics.record(replace(GOOD, class_name="unheard-of"))
    shown = samples(metrics)
    assert shown['tailrace_requests_on_target_total{class="gold"}'] == 1
    assert not [name for name in shown if "bronze" in name or "unheard-of" in name]
