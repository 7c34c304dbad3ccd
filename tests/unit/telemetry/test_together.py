"""What several processes count, in one exposition."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tailrace.errors import RefusalReason
from tailrace.records import LevelReport, LoadRecord, PoolRecord, PreemptionCount
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import Level, PreemptionCause
from tests.unit.telemetry.test_metrics import POOL, STEPS


def metrics(process: str) -> Metrics:
    return Metrics(model_name="m", version="1", process=process)


def values(text: bytes, name: str) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if line.startswith((name + " ", name + "{"))]
    return {line.rsplit(" ", 1)[0].removeprefix(name): float(line.rsplit(" ", 1)[1]) for line in lines}


def test_counters_add_up_and_gauges_are_those_of_who_has_them() -> None:
    engine, first, second = metrics("engine"), metrics("api 0"), metrics("api 1")
    engine.record(LoadRecord(3, 2, 10, 20, 40, PoolRecord(num_free=7)))
    engine.pool.watch(lambda: 4096)
    engine.experts.watch(lambda: {1: [5, 7]})
    for each in (first, second):
        each.http.request_started()
        each.http.answers.refuse("gold", RefusalReason.QUEUE_FULL)
        each.http.answers.first_text_of("gold").observe(0.1)
        each.http.answers.gaps_of("silver").observe(0.02)

    whole = first.with_others([engine.snapshot(), second.snapshot()])
    text, _ = whole.render("")

    assert values(text, "tailrace_requests_running") == {"": 3.0}
    assert values(text, "tailrace_http_requests_in_flight") == {"": 2.0}
    assert values(text, "tailrace_kv_resident_bytes") == {"": 4096.0}
    assert values(text, "tailrace_build_info") == {'{model_name="m",version="1"}': 1.0}
    assert values(text, "tailrace_first_text_seconds_count")['{class="gold",front_end="http"}'] == 2.0
    assert values(text, "tailrace_inter_token_latency_seconds_sum")['{class="silver"}'] == 0.04
    assert set(values(text, "tailrace_process_resident_bytes")) == {
        '{process="api 0"}',
        '{process="api 1"}',
        '{process="engine"}',
    }
    assert whole.experts.counts() == {1: [5, 7]}


def test_what_controls_the_engine_is_what_the_engine_says_however_many_others_there_are() -> None:
    engine, first, second = metrics("engine"), metrics("api 0"), metrics("api 1")
    engine.engine.control.begin(target_scale=2.5, max_running=8)
    text, _ = first.with_others([engine.snapshot(), second.snapshot()]).render("")
    assert values(text, "tailrace_target_scale_ratio") == {"": 2.5}
    assert values(text, "tailrace_step_pace_ratio") == {"": 1.0}
    assert values(text, "tailrace_requests_running_limit") == {"": 8.0}


def test_processes_that_have_counted_nothing_show_what_one_of_them_shows() -> None:
    alone, together = metrics("api 0"), metrics("api 0").with_others([metrics("api 0").snapshot()])
    own = ("tailrace_process_", "process_", "#")
    shown = [
        [line for line in each.render("")[0].decode().splitlines() if not line.startswith(own)]
        for each in (alone, together)
    ]
    assert shown[0] == shown[1]


def test_a_level_that_works_is_a_number_to_other_processes_too() -> None:
    engine = metrics("engine")
    engine.levels.watch(lambda: [LevelReport(Level.HOST, True, *range(11))])
    text, _ = metrics("api 0").with_others([engine.snapshot()]).render("")
    assert values(text, "tailrace_level_up") == {'{level="host"}': 1.0}


def test_to_look_changes_nothing() -> None:
    own = metrics("api 0")
    own.http.request_started()
    own.with_others([own.snapshot()])
    text, _ = own.render("")
    assert values(text, "tailrace_http_requests_in_flight") == {"": 1.0}


def test_who_takes_the_place_of_a_dead_process_counts_on_and_begins_with_its_own_gauges() -> None:
    dead, heir = metrics("api 0"), metrics("api 0")
    for _ in range(3):
        dead.http.request_started()
    dead.http.request_ended("/models", 200)
    dead.http.answers.first_text_of("gold").observe(0.1)

    heir.go_on_from(dead.snapshot())
    heir.http.answers.first_text_of("gold").observe(0.1)
    text, _ = heir.render("")

    assert values(text, "tailrace_first_text_seconds_count")['{class="gold",front_end="http"}'] == 2.0
    assert values(text, "tailrace_http_requests_total") == {'{route="/models",status="200"}': 1.0}
    assert values(text, "tailrace_http_requests_in_flight") == {"": 0.0}


def test_processor_time_counts_on_as_well() -> None:
    dead, heir = metrics("engine"), metrics("engine")
    before = dead.snapshot()
    taken_s = values(dead.render("")[0], "tailrace_process_cpu_seconds_total")['{process="engine"}']
    own_s = values(heir.render("")[0], "tailrace_process_cpu_seconds_total")['{process="engine"}']
    heir.go_on_from(before)
    shown = values(heir.render("")[0], "tailrace_process_cpu_seconds_total")
    assert list(shown) == ['{process="engine"}']
    assert shown['{process="engine"}'] >= 2 * min(taken_s, own_s) > 0.0


def test_an_engine_counts_on_from_the_one_before_whose_totals_began_at_nothing_too() -> None:
    """Totals since the start of an engine, as its scheduler, pool and levels keep them."""
    preempted = (PreemptionCount("gold", PreemptionCause.ROOM, 3, 40),)
    step = STEPS[1]._replace(num_preempted=3, preemptions=preempted, pool=POOL)
    engines: list[Metrics] = []
    for _ in range(2):
        engine = metrics("engine")
        if engines:
            engine.go_on_from(engines[-1].snapshot())
        engine.levels.watch(lambda: [LevelReport(Level.HOST, True, *range(11))])
        engine.experts.watch(lambda: {1: [5, 7]})
        for _ in range(2):  # a total that has not grown counts no more
            engine.record(step)
            engine.snapshot()
        engines.append(engine)
    text, _ = engines[-1].render("")

    assert values(text, "tailrace_preemptions_total") == {"": 6.0}
    assert values(text, "tailrace_requests_preempted_total")['{cause="room",class="gold"}'] == 6.0
    assert values(text, "tailrace_tokens_recomputed_total")['{cause="room",class="gold"}'] == 80.0
    assert values(text, "tailrace_kv_blocks_removed_total")['{cause="evicted"}'] == 8.0
    assert values(text, "tailrace_kv_blocks_removed_total")['{cause="invalidated"}'] == 24.0
    assert values(text, "tailrace_kv_blocks_moved_total") == {"": 16.0}
    assert values(text, "tailrace_level_evicted_blocks_total") == {'{level="host"}': 6.0}
    assert values(text, "tailrace_level_fetch_seconds_total") == {'{level="host"}': 12.0}
    assert values(text, "tailrace_expert_tokens_total") == {'{layer="1"}': 24.0}
    assert values(text, "tailrace_level_blocks") == {'{level="host"}': 0.0}
    assert values(text, "tailrace_kv_blocks_in_state")['{state="idle"}'] == 3.0


def test_what_all_processes_know_is_shown_once_and_what_each_sees_by_its_name() -> None:
    first, second = metrics("api 0"), metrics("api 1")
    first.link.watch(lambda: {"tokens": 0.25, "commands": 0.0})
    second.link.watch(lambda: {"tokens": 0.5, "commands": 0.125})
    for each in (first, first, second):
        each.link.request_resumed()
    whole = first.with_others([second.snapshot()])
    whole.server.show(is_engine_up=True, num_engine_restarts=2, num_api_restarts=1)
    text, _ = whole.render("")

    assert values(text, "tailrace_engine_up") == {"": 1.0}
    assert values(text, "tailrace_engine_restarts_total") == {"": 2.0}
    assert values(text, "tailrace_api_restarts_total") == {"": 1.0}
    assert values(text, "tailrace_requests_resumed_total") == {"": 3.0}
    assert values(text, "tailrace_ring_used_ratio") == {
        '{process="api 0",ring="tokens"}': 0.25,
        '{process="api 0",ring="commands"}': 0.0,
        '{process="api 1",ring="tokens"}': 0.5,
        '{process="api 1",ring="commands"}': 0.125,
    }
    assert values(first.render("")[0], "tailrace_engine_restarts_total") == {"": 0.0}


def test_exemplars_of_all_processes_are_shown_where_there_is_a_place_for_them_the_latest_of_a_bucket() -> None:
    first, second = metrics("api 0"), metrics("api 1")
    for each, trace_id, at_s in ((first, "a" * 32, 100.0), (second, "b" * 32, 101.5)):
        each.answers.through("http").gaps_of("gold").observe_traced(0.03, trace_id, at_s)
    first.answers.through("http").gaps_of("silver").observe_traced(0.5, "c" * 32, 99.0)
    whole = first.with_others([second.snapshot()])
    open_metrics = whole.render("application/openmetrics-text")[0].decode()

    found = {
        (family.name, sample.labels.get("class"), sample.labels["le"]): sample.exemplar
        for family in text_string_to_metric_families(open_metrics)
        for sample in family.samples
        if sample.exemplar is not None
    }
    assert set(found) == {
        ("tailrace_inter_token_latency_seconds", "gold", "0.05"),
        ("tailrace_inter_token_latency_seconds", "silver", "0.5"),
        ("vllm:inter_token_latency_seconds", None, "0.05"),
        ("vllm:inter_token_latency_seconds", None, "0.5"),
    }
    latest = found["tailrace_inter_token_latency_seconds", "gold", "0.05"]
    assert latest.labels == {"trace_id": "b" * 32}
    assert (latest.value, float(latest.timestamp)) == (0.03, 101.5)
    assert "trace_id" not in whole.render("text/plain")[0].decode()
