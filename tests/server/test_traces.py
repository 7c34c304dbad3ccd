"""Traces of a real server at a real collector, and its log as JSON."""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import grpc
import pytest

from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tests.server.process import ServerProcess, free_port, serving
from tests.support.grpc_server import GENERATE
from tests.support.otlp import Collector, Received, collecting

CLIENT_SPAN_ID = "b7ad6b7169203331"
GRPC_PORT = free_port()
OPTIONS = ("--max-model-tokens", "1024", "--kv-memory", "64MiB", "--budget-tokens", "64", "--max-restarts", "100")
LONG_PROMPT = "The history of the water mill, told from the very beginning. " * 16
SERVER, INTERNAL = 2, 1


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def server(collector: Collector) -> Iterator[ServerProcess]:
    more = ("--grpc-port", str(GRPC_PORT), "--otlp", collector.url, "--log-format", "json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        patch.setenv("OTEL_SERVICE_NAME", "mill")
        with serving(*OPTIONS, *more) as process:
            yield process


def a_trace(*, is_sampled: bool = True) -> tuple[str, dict[str, str]]:
    """The id of a new trace, and headers that say it."""
    trace_id = secrets.token_hex(16)
    return trace_id, {"traceparent": f"00-{trace_id}-{CLIENT_SPAN_ID}-0{int(is_sampled)}", "tracestate": "rojo=1"}


def opened(server: ServerProcess, path: str, fields: Mapping[str, object], headers: Mapping[str, str]) -> Any:
    body = json.dumps(fields).encode()
    request = urllib.request.Request(server.url + path, body, {"content-type": "application/json", **headers})
    return urllib.request.urlopen(request, timeout=60)


def chat(server: ServerProcess, headers: Mapping[str, str], **fields: object) -> tuple[Any, Mapping[str, str]]:
    """The answer, and the headers of it."""
    whole = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 0.5, "seed": 3} | fields
    with opened(server, "/v1/chat/completions", whole, headers) as reply:
        return json.load(reply), reply.headers


def check_tree(spans: list[Received]) -> Received:
    """The root, below which all others are, each within it."""
    (root,) = [span for span in spans if span.kind == SERVER]
    for span in spans:
        assert root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns
        assert span is root or (span.kind, span.parent_span_id) == (INTERNAL, root.span_id)
        assert all(span.start_ns <= at_ns <= span.end_ns for _, at_ns in span.events)
    return root


def test_a_request_is_a_tree_in_the_trace_of_its_client(server: ServerProcess, collector: Collector) -> None:
    trace_id, headers = a_trace()
    answer, told = chat(server, headers)
    spans = collector.wait_for_trace(trace_id)
    root = check_tree(spans)

    assert told["traceparent"] == f"00-{trace_id}-{root.span_id}-01"
    assert (root.parent_span_id, root.state, root.resource["service.name"]) == (CLIENT_SPAN_ID, "rojo=1", "mill")
    assert root.name == f"chat {answer['model']}"
    known = root.attributes
    assert known["gen_ai.response.id"] == answer["id"]
    assert known["gen_ai.usage.input_tokens"] == answer["usage"]["prompt_tokens"]
    assert known["gen_ai.usage.output_tokens"] == answer["usage"]["completion_tokens"]
    assert known["gen_ai.response.finish_reasons"] == [answer["choices"][0]["finish_reason"]]
    assert (known["gen_ai.request.max_tokens"], known["gen_ai.request.seed"]) == (8, 3)
    assert (known["http.response.status_code"], known["tailrace.class"]) == (200, "silver")
    names = [span.name for span in sorted(spans, key=lambda span: span.start_ns) if span is not root]
    assert names == ["prepare", "queue", "prefill", "decode", "stream"]


def test_a_long_prompt_has_a_span_for_each_piece_and_what_is_cached_is_told(
    server: ServerProcess, collector: Collector
) -> None:
    fields = {"prompt": LONG_PROMPT, "max_tokens": 4, "stream": True}
    roots = []
    for _ in range(2):
        trace_id, headers = a_trace()
        with opened(server, "/v1/completions", fields, headers) as reply:
            reply.read()
        spans = collector.wait_for_trace(trace_id)
        roots.append((check_tree(spans), [span for span in spans if span.name == "prefill"]))
    (first, pieces), (again, rest) = roots
    num_tokens = first.attributes["gen_ai.usage.input_tokens"]
    assert len(pieces) >= num_tokens / 64
    assert sum(piece.attributes["tailrace.tokens"] for piece in pieces) == num_tokens
    assert all(a.end_ns <= b.start_ns for a, b in pairwise(pieces))
    assert first.attributes["gen_ai.usage.cache_read.input_tokens"] == 0
    found = again.attributes["gen_ai.usage.cache_read.input_tokens"]
    assert found == again.attributes["tailrace.cache.engine.tokens"] >= num_tokens - 32
    assert sum(piece.attributes["tailrace.tokens"] for piece in rest) == num_tokens - found
    assert again.attributes["gen_ai.request.stream"] is True


def test_a_trace_that_its_client_does_not_record_is_not_sent(server: ServerProcess, collector: Collector) -> None:
    dark, headers = a_trace(is_sampled=False)
    _, told = chat(server, headers)
    assert told["traceparent"].startswith(f"00-{dark}-")
    assert told["traceparent"].endswith("-00")
    light, headers = a_trace()
    chat(server, headers)
    collector.wait_for_trace(light)
    assert all(span.trace_id != dark for span in collector.spans)


def test_who_names_no_trace_gets_one(server: ServerProcess, collector: Collector) -> None:
    _, told = chat(server, {})
    root = check_tree(collector.wait_for_trace(told["traceparent"].split("-")[1]))
    assert root.parent_span_id == ""


def test_a_refusal_is_a_span_without_a_fault(server: ServerProcess, collector: Collector) -> None:
    trace_id, headers = a_trace()
    with pytest.raises(urllib.error.HTTPError) as refused, opened(server, "/v1/completions", {"prompt": 1}, headers):
        pass
    refused.value.close()
    root = check_tree(collector.wait_for_trace(trace_id))
    assert (root.attributes["http.response.status_code"], root.status) == (400, 0)


def test_a_call_of_grpc_is_a_tree_too(server: ServerProcess, collector: Collector) -> None:
    trace_id, headers = a_trace()
    with grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}") as channel:
        generate = channel.unary_stream(GENERATE, pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString)
        messages = list(generate(pb.GenerateRequest(text="Once", max_tokens=4), metadata=tuple(headers.items())))
    root = check_tree(collector.wait_for_trace(trace_id))
    assert root.attributes["tailrace.endpoint"] == "grpc"
    assert root.attributes["gen_ai.usage.output_tokens"] == messages[-1].usage.completion_tokens
    assert (root.parent_span_id, root.state) == (CLIENT_SPAN_ID, "rojo=1")


def test_a_request_whose_engine_is_killed_is_one_tree_that_says_so(server: ServerProcess, collector: Collector) -> None:
    trace_id, headers = a_trace()
    fields = {"prompt": "Go on:", "max_tokens": 160, "ignore_eos": True, "stream": True, "temperature": 0}
    with opened(server, "/v1/completions", fields, headers) as reply:
        reply.readline()
        server.kill("engine")
        reply.read()
    spans = collector.wait_for_trace(trace_id)
    root = check_tree(spans)
    assert [name for name, _ in root.events] == ["tailrace.engine.replaced"]
    assert (root.status, root.attributes["gen_ai.usage.output_tokens"]) == (0, 160)
    assert [span.name for span in spans].count("decode") == 1


def test_a_collector_that_hangs_holds_up_neither_answers_nor_the_end_and_the_log_is_json(
    server: ServerProcess, collector: Collector
) -> None:
    """The last one: it ends the server."""
    server.wait_until("/ready", 200)
    collector.gate.clear()
    for _ in range(3):
        answer, _ = chat(server, {})
        assert answer["usage"]["completion_tokens"] > 0
    assert server.metric("tailrace_spans_exported_total") > 0
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.output().splitlines()]
    assert any("Serving at http://" in line["message"] for line in lines)
    died = [line for line in lines if line["message"].startswith("the engine died (SIGKILL)")]
    assert [(line["level"], line["process"], line["logger"]) for line in died] == [
        ("error", "supervisor", "tailrace.serving.supervisor")
    ]
