"""Spans at a collector: a real one of the suite, over HTTP."""

import logging
import time
from collections.abc import Iterator

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tailrace.telemetry.lives import LifeLog, RequestLife
from tailrace.telemetry.otel import OtlpSpans
from tailrace.telemetry.span_counts import SpanCounts
from tests.support.otlp import Collector, Received, collecting
from tests.unit.telemetry.test_spans import TRACE, life_of_a_chat

_, TRACE_ID, SPAN_ID, _ = TRACE.split("-")
NUM_SPANS = 8  # of the life of a chat
CLIENT_SPAN_ID = "b7ad6b7169203331"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def sender(url: str, counts: SpanCounts | None = None, *, max_waiting: int = 4096) -> OtlpSpans:
    return OtlpSpans(url, model="tiny", version="1.2.3", counts=counts or SpanCounts(), max_waiting=max_waiting)


def sent(collector: Collector, *lives: RequestLife) -> list[Received]:
    spans = sender(collector.url)
    for life in lives:
        spans.tell(life)
    spans.close()
    return collector.spans


def values(counts: SpanCounts) -> tuple[float, float, float]:
    """Spans that were exported, dropped since too many waited, and refused."""
    exported, dropped = counts.series
    return exported.value, dropped.values[("full",)], dropped.values[("refused",)]  # type: ignore[union-attr]  # known


def test_a_request_arrives_as_a_tree_whose_root_is_the_span_of_the_client(collector: Collector) -> None:
    life = life_of_a_chat()
    life.parent_span_id, life.trace_state = CLIENT_SPAN_ID, "rojo=1,congo=t61"
    root, *children = sent(collector, life)

    assert (root.name, root.kind, root.status) == ("chat tiny", Span.SPAN_KIND_SERVER, Status.STATUS_CODE_UNSET)
    assert (root.trace_id, root.span_id, root.parent_span_id) == (TRACE_ID, SPAN_ID, CLIENT_SPAN_ID)
    assert [child.name for child in children] == ["prepare", "queue", "fetch", "prefill", "prefill", "decode", "stream"]
    assert {child.parent_span_id for child in children} == {SPAN_ID}
    assert {child.trace_id for child in children} == {TRACE_ID}
    assert len({span.span_id for span in (root, *children)}) == NUM_SPANS
    assert {span.state for span in (root, *children)} == {"rojo=1,congo=t61"}
    assert root.attributes["gen_ai.usage.input_tokens"] == 252
    assert root.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert collector.paths == ["/v1/traces"]


def test_times_are_those_of_the_wall_and_keep_their_distances(collector: Collector) -> None:
    life, now_s = life_of_a_chat(), time.monotonic()
    life.accepted_s, life.ended_s = now_s - 3.0, now_s
    before_ns = time.time_ns()
    root, *children = sent(collector, life)

    assert root.end_ns - root.start_ns == pytest.approx(3e9, abs=1e3)
    assert abs(root.end_ns - before_ns) < 5e9
    for child in children:
        assert root.start_ns <= child.start_ns <= child.end_ns <= root.end_ns


def test_only_traces_that_are_recorded_are_sent(collector: Collector) -> None:
    dark, untraced = life_of_a_chat(), life_of_a_chat()
    dark.trace, untraced.trace = TRACE[:-1] + "0", ""
    assert sent(collector, dark, untraced) == []
    assert collector.paths == []


def test_a_fault_has_the_status_of_one(collector: Collector) -> None:
    life = life_of_a_chat()
    life.error, life.status = "internal_error", 500
    life.resumed_s = [11.0]
    root = sent(collector, life)[0]
    assert (root.status, root.attributes["error.type"]) == (Status.STATUS_CODE_ERROR, "internal_error")
    assert [name for name, _ in root.events] == ["tailrace.engine.replaced"]


def test_a_log_of_lives_tells_of_each_at_its_end(collector: Collector) -> None:
    lives, spans = LifeLog(), sender(collector.url)
    lives.on_end = spans.tell
    life = life_of_a_chat()
    lives.begin(life)
    lives.end(life)
    spans.close()
    assert len(collector.spans) == NUM_SPANS


def test_the_variables_of_opentelemetry_are_obeyed(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent(collector, life_of_a_chat())[0].resource["service.name"] == "tailrace"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=water")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    resource = sent(collector, life_of_a_chat())[-1].resource
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("mine", "lab")
    assert resource["service.version"] == "1.2.3"
    assert (collector.headers[-1]["x-team"], collector.headers[-1]["content-encoding"]) == ("water", "gzip")


def test_a_path_that_is_given_is_kept(collector: Collector) -> None:
    spans = sender(collector.url + "/in/tenant")
    spans.tell(life_of_a_chat())
    spans.close()
    assert collector.paths == ["/in/tenant"]


def test_what_was_sent_is_counted(collector: Collector) -> None:
    counts = SpanCounts()
    spans = sender(collector.url, counts)
    spans.tell(life_of_a_chat())
    spans.tell(life_of_a_chat())
    spans.close()
    assert values(counts) == (2 * NUM_SPANS, 0, 0)


def test_what_a_collector_does_not_take_is_counted(collector: Collector) -> None:
    collector.answer, counts = 400, SpanCounts()
    spans = sender(collector.url, counts)
    spans.tell(life_of_a_chat())
    spans.close()
    assert values(counts) == (0, 0, NUM_SPANS)


def test_a_collector_that_fails_is_complained_of_once(
    collector: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
    spans = sender(collector.url)
    with caplog.at_level(logging.DEBUG):
        for number, status in enumerate((200, 400, 400, 200, 200, 401), 1):
            collector.answer = status
            spans.tell(life_of_a_chat())
            collector.wait_for_batches(number)
        spans.close()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert [message.partition(":")[0] for message in said] == [
        "the collector of traces takes no spans, which are dropped until it does",
        "the collector of traces takes spans again",
        "the collector of traces takes no spans, which are dropped until it does",
    ]
    assert "400" in said[0]
    assert "401" in said[2]


def test_a_collector_that_hangs_holds_up_nobody(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    """Whole requests are dropped once too many spans wait, and the end is not waited for."""
    collector.gate.clear()
    counts = SpanCounts()
    spans = sender(collector.url, counts, max_waiting=4 * NUM_SPANS + 1)
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            spans.tell(life_of_a_chat())
    assert values(counts) == (0, 96 * NUM_SPANS, 0)
    spans.close(timeout_s=0.05)
    assert collector.spans == []
    collector.gate.set()
