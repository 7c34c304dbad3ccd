"""What is scraped of an engine that has served requests whose figures can be worked out by hand."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tailrace.engine.engine import Engine
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.telemetry.pages import MetricsPage, collect, publish_from_thread
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import Request, SamplingParams

STEP_S = 0.25
PROMPT = range(1, 10)  # two blocks of four, and one token


class Device:
    """Takes a quarter of a second for any step, by the clock of the test, or for as long as it is held."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_at_it = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def run(self, plan: StepPlan) -> StepResult:
        self.is_at_it.set()
        self.may_end.wait()
        self.now_s += STEP_S
        sampled = [SampledToken(part.request_id, 7) for part in plan.slices if part.is_sampled]
        return StepResult(plan.step_id, tuple(sampled))


class Counted:
    """An engine and what is counted of it."""

    def __init__(self, before: bytes = b"") -> None:
        self.device = Device()
        self.metrics = Metrics(model_name="m", version="0", process="engine")
        if before:
            self.metrics.go_on_from(before)
        self.intake = Intake(IntakeConfig(8, max_queued_tokens=640, max_model_tokens=64), lambda: self.device.now_s)
        scheduler = Scheduler(
            SchedulerConfig(budget_tokens=16, max_running=4, max_model_tokens=64, eos_ids=()),
            KvCache(KvCacheConfig(num_blocks=16, block_tokens=4, root_parts=("m",))),
        )
        self.engine = Engine(
            scheduler,
            self.device,
            self.intake,
            publish=lambda events: None,
            reply=lambda answer: None,
            emit=self.metrics.record,
            clock=lambda: self.device.now_s,
        )

    def submit(self, request_id: str, class_name: str, prompt: range, max_tokens: int) -> None:
        self.intake.submit(Request(request_id, prompt, SamplingParams(max_tokens), class_name=class_name))

    def run(self) -> None:
        self.engine.drain_intake()
        while self.engine.step():
            self.engine.drain_intake()

    def shown(self) -> dict[str, float]:
        lines = self.metrics.render("")[0].decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


@pytest.fixture
def counted() -> Counted:
    return Counted()


def serve_known_requests(counted: Counted) -> None:
    """One after the other. Steps of 9, 1, 1 tokens; then 1 (two blocks are there) and 1; then 3; and one that left."""
    counted.submit("a", "gold", PROMPT, 3)
    counted.run()
    counted.submit("b", "silver", PROMPT, 2)
    counted.run()
    counted.submit("c", "gold", range(50, 53), 1)
    counted.run()
    counted.submit("d", "bronze", PROMPT, 5)
    counted.intake.abort("d")
    counted.run()


def test_each_series_has_the_value_that_follows_from_the_requests(counted: Counted) -> None:
    serve_known_requests(counted)
    shown = counted.shown()
    expected = {
        'tailrace_requests_admitted_total{class="gold"}': 2,
        'tailrace_requests_admitted_total{class="silver"}': 1,
        'tailrace_requests_admitted_total{class="bronze"}': 0,
        'tailrace_requests_finished_total{class="gold",finished_reason="length"}': 2,
        'tailrace_requests_finished_total{class="bronze",finished_reason="abort"}': 1,
        "tailrace_requests_aborted_total": 1,
        "tailrace_prompt_tokens_total": 9 + 9 + 3,
        "tailrace_prompt_tokens_cached_total": 8,
        'tailrace_prompt_tokens_found_total{level="engine"}': 8,
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"}': 9 + 1 + 3,
        'tailrace_prefix_misses_total{reason="never_seen"}': 1,  # b lacks its last token alone, c is no block
        'tailrace_prompt_tokens_missed_total{reason="never_seen"}': 9,
        "tailrace_generation_tokens_total": 3 + 2 + 1,
        'tailrace_computed_tokens_total{part="prompt"}': 9 + 3,
        'tailrace_computed_tokens_total{part="output"}': 2 + 2,  # b's one token of a prompt is a row as any other
        "tailrace_step_tokens_count": 3 + 2 + 1,
        "tailrace_step_tokens_sum": 11 + 2 + 3,
        "tailrace_step_sequences_sum": 6,
        "tailrace_step_seconds_sum": 6 * STEP_S,
        'tailrace_step_part_seconds_total{part="compute"}': 6 * STEP_S,
        'tailrace_time_to_first_token_seconds_sum{class="gold"}': 2 * STEP_S,
        'tailrace_time_to_first_token_seconds_count{class="silver"}': 1,
        'tailrace_request_prefill_seconds_sum{class="gold"}': 2 * STEP_S,
        'tailrace_request_queue_seconds_count{class="gold"}': 2,
        'tailrace_request_queue_seconds_sum{class="gold"}': 0,
        'tailrace_request_decode_seconds_sum{class="gold"}': 2 * STEP_S,
        'tailrace_request_time_per_output_token_seconds_sum{class="gold"}': STEP_S,
        'tailrace_request_time_per_output_token_seconds_count{class="gold"}': 1,  # c has one token
        'tailrace_request_seconds_sum{class="gold"}': (3 + 1) * STEP_S,
        'tailrace_request_seconds_count{class="bronze"}': 1,
        'tailrace_request_inference_seconds_sum{class="silver"}': 2 * STEP_S,
        'tailrace_request_generation_tokens_sum{class="gold"}': 3 + 1,
        'tailrace_request_max_tokens_sum{class="bronze"}': 5,
        'tailrace_output_tokens_total{class="silver"}': 2,
        'tailrace_requests_on_target_total{class="gold"}': 1,
        'tailrace_requests_off_target_total{class="gold"}': 1,  # a's later tokens come after a quarter of a second
        'tailrace_output_tokens_late_total{class="gold"}': 2,
        "tailrace_requests_running": 0,
        "tailrace_requests_waiting": 0,
        "tailrace_kv_blocks": 16,
        "tailrace_kv_blocks_used": 0,
    }
    assert {name: shown[name] for name in expected} == expected


def test_the_next_engine_counts_on(counted: Counted) -> None:
    serve_known_requests(counted)
    following = Counted(counted.metrics.snapshot())
    serve_known_requests(following)
    once, twice = counted.shown(), following.shown()
    sums = ("_total", "_count", "_sum", "_bucket")
    counters = [
        name
        for name in once
        if name.split("{")[0].endswith(sums) and "process_" not in name and "engine_seconds" not in name
    ]
    assert len(counters) > 500
    assert {name for name in counters if twice[name] != pytest.approx(2 * once[name])} == set()


@pytest.fixture
def hanging(counted: Counted) -> Iterator[Counted]:
    """In the middle of a step that does not end."""
    counted.device.may_end.clear()
    counted.submit("a", "gold", PROMPT, 1)
    thread = threading.Thread(target=counted.run)
    thread.start()
    counted.device.is_at_it.wait()
    yield counted
    counted.device.may_end.set()
    thread.join()


def test_a_scrape_waits_for_no_step(hanging: Counted) -> None:
    page = MetricsPage()

    def snapshot() -> bytes:
        with hanging.engine.telling:
            return hanging.metrics.snapshot()

    publish_from_thread(page, snapshot)
    snapshots = asyncio.run(collect([page]))
    assert not hanging.device.may_end.is_set()
    assert len(snapshots) == 1, "nothing was written while the step went on"
    whole = Metrics(model_name="m", version="0", process="api 0").with_others(snapshots)
    assert "tailrace_step_tokens_count 0.0" in whole.render("")[0].decode()
