"""What several processes count, in one exposition."""

from tailrace.errors import RefusalReason
from tailrace.records import LevelReport, LoadRecord, PoolRecord
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import Level


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
        each.http.answers.observe_first_text(0.1)
        each.http.answers.gaps_of("silver").observe(0.02)

    whole = first.with_others([engine.snapshot(), second.snapshot()])
    text, _ = whole.render("")

    assert values(text, "tailrace_requests_running") == {"": 3.0}
    assert values(text, "tailrace_http_requests_in_flight") == {"": 2.0}
    assert values(text, "tailrace_kv_resident_bytes") == {"": 4096.0}
    assert values(text, "tailrace_build_info") == {'{model_name="m",version="1"}': 1.0}
    assert values(text, "tailrace_first_text_seconds_count")['{front_end="http"}'] == 2.0
    assert values(text, "tailrace_inter_token_latency_seconds_sum")['{class="silver"}'] == 0.04
    assert set(values(text, "tailrace_process_resident_bytes")) == {
        '{process="api 0"}',
        '{process="api 1"}',
        '{process="engine"}',
    }
    assert whole.experts.counts() == {1: [5, 7]}


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
    dead.http.answers.observe_first_text(0.1)

    heir.go_on_from(dead.snapshot())
    heir.http.answers.observe_first_text(0.1)
    text, _ = heir.render("")

    assert values(text, "tailrace_first_text_seconds_count")['{front_end="http"}'] == 2.0
    assert values(text, "tailrace_http_requests_total") == {'{route="/models",status="200"}': 1.0}
    assert values(text, "tailrace_http_requests_in_flight") == {"": 0.0}
