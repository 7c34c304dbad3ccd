"""Series have the values computed by hand, under our names and the aliases."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tailrace.records import BeginningRecord, LoadRecord, PoolRecord, RequestRecord, ResidencyCounts, StepRecord
from tailrace.telemetry.catalog import CATALOG, Kind
from tailrace.telemetry.derived import STANDARD_SERIES, VLLM_SERIES
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.series import Histogram
from tailrace.types import FinishReason, Level, MissReason, PrefixReport
from tests.support.beginnings import beginning_of

VLLM = '{engine="0",model_name="tiny"}'


def by_source(source: str) -> str:
    return f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="tiny",source="{source}"}}'


POOL = PoolRecord(
    num_released=1,
    num_free=1,
    num_reserved=1,
    num_filling=2,
    num_sealed=2,
    num_idle=3,
    num_evicted_total=4,
    num_expired_total=5,
    num_swept_total=6,
    num_invalidated_total=12,
    num_committed_chunks=7,
    num_partial_chunks=3,
    chunk_fragmentation=0.25,
    longest_free_chunks=2,
    num_moved_total=8,
)
STEPS = [
    StepRecord(
        step_id=1,
        started_s=10.0,
        planned_s=10.25,
        computed_s=11.0,
        finished_s=11.125,
        num_tokens=100,
        num_sampled=2,
        num_prefill_tokens=98,
        num_context_tokens=500,
        num_read_tokens=500,
        num_running=2,
        num_waiting=1,
        num_preempted=0,
        num_blocks_used=6,
        num_blocks_cached=2,
        num_blocks_total=10,
        pool=PoolRecord(num_sealed=5, num_filling=1, num_idle=2, num_free=2, num_evicted_total=1),
        num_sequences=7,
        num_deferred=1,
    ),
    StepRecord(
        step_id=2,
        started_s=12.0,
        planned_s=12.25,
        computed_s=12.5,
        finished_s=12.625,
        num_tokens=3,
        num_sampled=3,
        num_prefill_tokens=0,
        num_context_tokens=500,
        num_read_tokens=500,
        num_running=3,
        num_waiting=0,
        num_preempted=1,
        num_blocks_used=5,
        num_blocks_cached=3,
        num_blocks_total=10,
        pool=POOL,
        predicted_s=0.125,
        num_sequences=3,
    ),
]


def cached(num_tokens: int, reason: MissReason | None = MissReason.NEVER_SEEN) -> PrefixReport:
    return PrefixReport(((Level.ENGINE, num_tokens // 4), (Level.HOST, num_tokens // 4 * 3)), reason)


REQUESTS = [
    RequestRecord(
        "a", 1.0, 2.0, 4.0, 8.0, 64, cached(48, MissReason.OTHER_SALT), 5, 0, FinishReason.STOP, max_tokens=20
    ),
    RequestRecord("b", 1.0, 1.5, 2.0, 2.0, 10, cached(0), 1, 1, FinishReason.LENGTH),
    RequestRecord("c", 1.0, 1.5, None, 3.0, 20, cached(16, None), 0, 0, FinishReason.ABORT),
    RequestRecord("d", 1.0, None, None, 3.0, 30, cached(0), 0, 0, FinishReason.ABORT),
]


@pytest.fixture
def metrics() -> Metrics:
    metrics = Metrics(model_name="tiny", version="1.2.3")
    metrics.engine.begin(block_tokens=16, num_blocks=10, budget_tokens=512)
    for step in STEPS:
        metrics.record(step)
    for request in REQUESTS:
        if request.first_token_s is not None:
            metrics.record(beginning_of(request))
        metrics.record(request)
    return metrics


def samples(metrics: Metrics) -> dict[str, float]:
    lines = metrics.render("")[0].decode().splitlines()
    own = ("#", "tailrace_process_", "process_")  # a process's time goes on by itself
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith(own)]
    assert len({name for name, _ in pairs}) == len(pairs)
    return {name: float(value) for name, value in pairs}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tailrace_requests_running", 3),
        (f"vllm:num_requests_running{VLLM}", 3),
        ("tailrace_requests_waiting", 0),
        (f"vllm:num_requests_waiting{VLLM}", 0),
        ("tailrace_requests_deferred", 0),
        ("tailrace_kv_blocks", 10),
        ("tailrace_kv_blocks_used", 5),
        ("tailrace_kv_blocks_cached", 3),
        ("tailrace_kv_usage_ratio", 0.5),
        (f"vllm:kv_cache_usage_perc{VLLM}", 0.5),
        ("tailrace_prompt_tokens_total", 64 + 10 + 20),
        (f"vllm:prompt_tokens_total{VLLM}", 94),
        (f"vllm:prefix_cache_queries_total{VLLM}", 94),
        (f"vllm:prefix_cache_hits_total{VLLM}", 12 + 4),  # of the engine: those of levels below are others there
        (f"vllm:prompt_tokens_cached_total{VLLM}", 64),
        (by_source("local_compute"), 94 - 64),
        (by_source("local_cache_hit"), 12 + 4),
        (by_source("external_kv_transfer"), 36 + 12),
        ('vllm:cache_config_info{block_size="16",engine="0",model_name="tiny",num_gpu_blocks="10"}', 1),
        ("tailrace_prompt_tokens_cached_total", 64),
        ('tailrace_prompt_tokens_found_total{level="engine"}', 12 + 4),
        ('tailrace_prompt_tokens_found_total{level="host"}', 36 + 12),
        ('tailrace_prompt_tokens_found_total{level="redis"}', 0),
        ('tailrace_prefix_misses_total{reason="other_salt"}', 1),
        ('tailrace_prefix_misses_total{reason="never_seen"}', 1),
        ('tailrace_prefix_misses_total{reason="evicted"}', 0),
        ('tailrace_prompt_tokens_missed_total{reason="other_salt"}', 64 - 48),
        ('tailrace_prompt_tokens_missed_total{reason="never_seen"}', 10),
        ("tailrace_generation_tokens_total", 5),
        (f"vllm:generation_tokens_total{VLLM}", 5),
        ('tailrace_computed_tokens_total{part="prompt"}', 98),
        ('tailrace_computed_tokens_total{part="output"}', 5),
        (f"vllm:num_preemptions_total{VLLM}", 1),
        ('tailrace_requests_finished_total{class="silver",finished_reason="abort"}', 2),
        ('tailrace_requests_finished_total{class="silver",finished_reason="error"}', 0),
        ("tailrace_requests_aborted_total", 2),
        ('vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"}', 1),
        (f"vllm:time_to_first_token_seconds_count{VLLM}", 2),
        (f"vllm:time_to_first_token_seconds_sum{VLLM}", 3 + 1),
        (f"vllm:request_queue_time_seconds_sum{VLLM}", 1 + 0.5 + 0.5),
        (f"vllm:request_queue_time_seconds_count{VLLM}", 3),
        (f"vllm:request_prefill_time_seconds_sum{VLLM}", 2 + 0.5),
        (f"vllm:request_decode_time_seconds_sum{VLLM}", 4),
        (f"vllm:request_time_per_output_token_seconds_sum{VLLM}", 1),
        (f"vllm:request_time_per_output_token_seconds_count{VLLM}", 1),
        (f"vllm:request_inference_time_seconds_sum{VLLM}", 6 + 0.5 + 1.5),
        (f"vllm:request_inference_time_seconds_count{VLLM}", 3),
        ('tailrace_request_decode_seconds_sum{class="silver"}', 4),
        ('tailrace_request_prefill_seconds_count{class="silver"}', 2),
        (f"vllm:e2e_request_latency_seconds_sum{VLLM}", 7 + 1 + 2 + 2),
        (f"vllm:e2e_request_latency_seconds_count{VLLM}", 4),
        (f"vllm:request_prompt_tokens_sum{VLLM}", 124),
        (f"vllm:request_generation_tokens_sum{VLLM}", 6),
        (f"vllm:iteration_tokens_total_sum{VLLM}", 103),
        (f"vllm:iteration_tokens_total_count{VLLM}", 2),
        ("tailrace_step_budget_tokens", 512),
        ("tailrace_step_sequences_sum", 7 + 3),
        ('tailrace_step_sequences_bucket{le="4.0"}', 1),
        ('tailrace_step_prediction_seconds_total{time="predicted"}', 0.125),
        ('tailrace_step_prediction_seconds_total{time="real"}', 0.25),
        ('tailrace_requests_admitted_total{class="silver"}', 3),
        (f"vllm:request_prefill_kv_computed_tokens_sum{VLLM}", 64 - 48 + 10 + 20 - 16),
        (f"vllm:request_params_max_tokens_sum{VLLM}", 20),
        (f"vllm:request_params_max_tokens_count{VLLM}", 1),
        ("tailrace_step_seconds_sum", 1.125 + 0.625),
        ('tailrace_step_seconds_bucket{le="1.0"}', 1),
        ('tailrace_step_seconds_bucket{le="2.0"}', 2),
        ('tailrace_step_part_seconds_total{part="plan"}', 0.5),
        ('tailrace_step_part_seconds_total{part="compute"}', 1),
        ('tailrace_step_part_seconds_total{part="publish"}', 0.25),
        ('tailrace_build_info{model_name="tiny",version="1.2.3"}', 1),
        ('tailrace_kv_blocks_in_state{state="released"}', 1),
        ('tailrace_kv_blocks_in_state{state="filling"}', 2),
        ('tailrace_kv_blocks_in_state{state="idle"}', 3),
        ('tailrace_kv_blocks_removed_total{cause="evicted"}', 4),
        ('tailrace_kv_blocks_removed_total{cause="expired"}', 5),
        ('tailrace_kv_blocks_removed_total{cause="released"}', 6),
        ('tailrace_kv_blocks_removed_total{cause="invalidated"}', 12),
        ("tailrace_kv_chunks_committed", 7),
        ("tailrace_kv_chunks_partial", 3),
        ("tailrace_kv_chunk_fragmentation_ratio", 0.25),
        ("tailrace_kv_longest_free_chunks", 2),
        ("tailrace_kv_blocks_moved_total", 8),
    ],
)
def test_a_series_has_the_value_computed_by_hand(metrics: Metrics, name: str, value: float) -> None:
    assert samples(metrics)[name] == value


def test_what_is_known_of_a_request_with_its_first_token_is_shown_before_it_ends() -> None:
    metrics = Metrics(model_name="tiny", version="0")
    metrics.record(beginning_of(REQUESTS[0]))
    shown = samples(metrics)
    assert shown['tailrace_time_to_first_token_seconds_sum{class="silver"}'] == 3
    assert shown['tailrace_request_queue_seconds_sum{class="silver"}'] == 1
    assert shown['tailrace_request_prefill_seconds_sum{class="silver"}'] == 2
    assert shown['tailrace_requests_admitted_total{class="silver"}'] == 1
    assert shown["tailrace_prompt_tokens_total"] == 64
    assert shown["tailrace_prompt_tokens_cached_total"] == 48
    assert shown['tailrace_prefix_misses_total{reason="other_salt"}'] == 1
    assert shown[f"vllm:e2e_request_latency_seconds_count{VLLM}"] == 0


def test_who_waits_for_a_prefix_is_told_from_who_waits_for_capacity(metrics: Metrics) -> None:
    metrics.record(STEPS[0]._replace(num_waiting=5, num_deferred=2))
    shown = samples(metrics)
    waiting = "vllm:num_requests_waiting_by_reason"
    assert shown["tailrace_requests_deferred"] == 2
    assert shown[f'{waiting}{{engine="0",model_name="tiny",reason="capacity"}}'] == 3
    assert shown[f'{waiting}{{engine="0",model_name="tiny",reason="deferred"}}'] == 2


def test_gauges_follow_what_aborts_changed_between_steps(metrics: Metrics) -> None:
    metrics.record(LoadRecord(1, 0, 2, 6, 10, POOL._replace(num_idle=6)))
    shown = samples(metrics)
    assert shown["tailrace_requests_running"] == 1
    assert shown["tailrace_kv_blocks_used"] == 2
    assert shown["tailrace_kv_blocks_cached"] == 6
    assert shown['tailrace_kv_blocks_in_state{state="idle"}'] == 6
    assert shown["tailrace_kv_usage_ratio"] == 0.2
    assert shown["tailrace_step_tokens_count"] == 2  # no step


def test_experts_are_counted_by_layer_when_somebody_looks(metrics: Metrics) -> None:
    counts = {1: [4, 0, 12, 0], 3: [0, 0, 0, 0]}
    metrics.experts.watch(lambda: counts)
    counts[1] = [8, 8, 16, 0]
    shown = samples(metrics)

    assert shown['tailrace_expert_tokens_total{layer="1"}'] == 32
    assert shown['tailrace_expert_imbalance_ratio{layer="1"}'] == 2
    assert shown['tailrace_expert_tokens_total{layer="3"}'] == 0
    assert shown['tailrace_expert_imbalance_ratio{layer="3"}'] == 1


def test_experts_that_come_and_go_are_counted_and_go_on_from_those_of_the_engine_before(metrics: Metrics) -> None:
    metrics.residency.watch(lambda: ResidencyCounts(7, 3, 2, 5, 1, 0.5, num_resident=4, resident_bytes=400))
    before = metrics.snapshot()
    after = Metrics(model_name="m", version="1")
    after.go_on_from(before)
    after.residency.watch(lambda: ResidencyCounts(hits=1, misses=2, num_resident=2, resident_bytes=200))
    samples(after)
    shown = samples(after)  # twice: what was counted once is not counted again

    assert shown['tailrace_experts_chosen_total{outcome="hit"}'] == 8
    assert shown['tailrace_experts_chosen_total{outcome="miss"}'] == 5
    assert shown["tailrace_experts_evicted_total"] == 2
    assert shown['tailrace_experts_foreseen_total{outcome="loaded"}'] == 5
    assert shown['tailrace_experts_foreseen_total{outcome="hit"}'] == 1
    assert shown["tailrace_expert_wait_seconds_total"] == 0.5
    assert shown["tailrace_experts_resident"] == 2
    assert shown["tailrace_expert_resident_bytes"] == 200


def test_a_model_without_experts_shows_none(metrics: Metrics) -> None:
    assert not [name for name in samples(metrics) if "expert" in name]


def test_everything_in_the_catalog_is_shown_and_nothing_else(metrics: Metrics) -> None:
    shown = {family.name: family for family in text_string_to_metric_families(metrics.render("")[0].decode())}
    listed = {name for metric in CATALOG for name in (metric.name, *metric.aliases)}
    listed |= {each.metric.name for each in (*VLLM_SERIES, *STANDARD_SERIES)}
    assert set(shown) == {name.removesuffix("_total") if shown.get(name) is None else name for name in listed}
    for metric in CATALOG:
        assert shown[metric.name].type == metric.kind.value
        assert shown[metric.name].documentation == metric.help


def test_processes_are_shown_together_under_the_names_of_client_libraries(metrics: Metrics) -> None:
    others = Metrics(model_name="tiny", version="1.2.3", process="engine")
    text = metrics.with_others([others.snapshot()]).render("")[0].decode()
    shown = {family.name: family.samples for family in text_string_to_metric_families(text)}
    for theirs, ours in (
        ("process_cpu_seconds", "tailrace_process_cpu_seconds"),
        ("process_resident_memory_bytes", "tailrace_process_resident_bytes"),
        ("process_open_fds", "tailrace_process_open_files"),
    ):
        (together,) = shown[theirs]
        apart = [sample.value for sample in shown[ours]]
        assert len(apart) == 2
        assert together.value == pytest.approx(sum(apart))
        assert together.labels == {}


def test_rows_of_the_catalog_are_well_formed() -> None:
    names = [name for metric in CATALOG for name in (metric.name, *metric.aliases)]
    assert len(set(names)) == len(names)
    for metric in CATALOG:
        assert metric.name.startswith("tailrace_")
        assert metric.help.endswith(".")
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
        if metric.kind is Kind.HISTOGRAM and metric.unit == "seconds":
            assert metric.name.endswith("_seconds")


def test_a_bound_belongs_to_its_bucket_and_more_to_the_overflow() -> None:
    histogram = Histogram(next(metric for metric in CATALOG if metric.name == "tailrace_step_tokens"))
    for value in (1, 2, 3, 8192, 8193):
        histogram.observe(value)
    assert histogram.counts[:3] == [1, 1, 1]
    assert histogram.counts[-2:] == [1, 1]


def test_a_model_name_cannot_break_the_exposition() -> None:
    metrics = Metrics(model_name='a"b\n\\c', version="0")
    families = text_string_to_metric_families(metrics.render("")[0].decode())
    (info,) = [sample for family in families for sample in family.samples if sample.name == "tailrace_build_info"]
    assert info.labels["model_name"] == 'a"b\n\\c'


def test_what_is_computed_ahead_counts_by_itself_and_in_no_figure_of_requests(metrics: Metrics) -> None:
    before = samples(metrics)
    for reason in (FinishReason.LENGTH, FinishReason.STOP, FinishReason.ABORT, FinishReason.ERROR):
        metrics.record(RequestRecord("w", 1.0, 1.5, 2.0, 2.0, 64, cached(48), 1, 0, reason, is_warmup=True))
    after = samples(metrics)
    assert {name for name in after if name.startswith(("tailrace", "vllm")) and after[name] != before[name]} == {
        'tailrace_warmups_total{outcome="computed"}',
        'tailrace_warmups_total{outcome="gave_way"}',
        'tailrace_warmups_total{outcome="failed"}',
        "tailrace_warmup_tokens_total",
    }
    assert after['tailrace_warmups_total{outcome="computed"}'] == 2
    assert after["tailrace_warmup_tokens_total"] == 32


def test_resident_bytes_are_asked_for_when_somebody_looks(metrics: Metrics) -> None:
    resident = [1 << 20]
    metrics.pool.watch(lambda: resident[0])
    assert samples(metrics)["tailrace_kv_resident_bytes"] == 1 << 20
    resident[0] = 0
    assert samples(metrics)["tailrace_kv_resident_bytes"] == 0


@pytest.mark.parametrize(("predicted_s", "error"), [(3.0, 0.25), (5.0, 0.25), (4.0, 0.0)])
def test_the_error_of_a_prediction_is_in_parts_of_what_came(metrics: Metrics, predicted_s: float, error: float) -> None:
    name = "tailrace_time_to_first_token_prediction_error_ratio"
    assert samples(metrics)[f"{name}_count"] == 0
    metrics.record(BeginningRecord("f", "gold", 1.0, 2.0, 5.0, 64, None, predicted_ttft_s=predicted_s))
    assert samples(metrics)[f"{name}_count"] == 1
    assert samples(metrics)[f"{name}_sum"] == error
