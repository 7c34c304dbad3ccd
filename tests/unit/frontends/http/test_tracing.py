"""The place of a request in a trace: read from its headers, passed on, and told to its client."""

import json
import logging

import pytest
from starlette.types import ASGIApp

from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.trace_context import TraceContext, Tracing
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.telemetry.log_lines import JsonLines
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import ask, post
from tests.support.scripted_service import ScriptedService

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
PATHS: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "model": "tiny"},
}


@pytest.fixture
def tracing_app(service: ScriptedService, metrics: Metrics) -> ASGIApp:
    return create_app(service, metrics, HttpConfig(tracing=Tracing(TraceSampler())))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_the_engine_works_in_the_span_that_the_client_is_told_of(
    app: ASGIApp, service: ScriptedService, path: str, is_streamed: bool
) -> None:
    answer = await post(app, path, PATHS[path] | {"stream": is_streamed}, traceparent=PARENT)

    assert answer.status == 200
    span = TraceContext.of_traceparent(answer.headers["traceparent"])
    assert span is not None
    assert (span.trace_id, span.is_sampled) == (TRACE_ID, True)
    assert span.span_id not in PARENT
    assert service.generation.trace == answer.headers["traceparent"]


async def test_nobody_is_traced_who_does_not_ask_for_it(app: ASGIApp, service: ScriptedService) -> None:
    for headers in ({}, {"traceparent": "nonsense"}):
        answer = await post(app, "/v1/completions", {"prompt": "Hi"}, **headers)
        assert "traceparent" not in answer.headers
    assert [generation.trace for generation in service.generations] == ["", ""]


async def test_a_server_that_records_traces_begins_them(tracing_app: ASGIApp, service: ScriptedService) -> None:
    answers = [await post(tracing_app, "/v1/completions", {"prompt": "Hi"}) for _ in range(2)]
    told = [answer.headers["traceparent"] for answer in answers]
    assert [generation.trace for generation in service.generations] == told
    assert len({trace.split("-")[1] for trace in told}) == 2
    assert "traceparent" not in (await ask(tracing_app, "/health")).headers


async def test_all_prompts_of_a_request_are_of_one_span(tracing_app: ASGIApp, service: ScriptedService) -> None:
    answer = await post(tracing_app, "/v1/completions", {"prompt": ["a", "b"]})
    assert [generation.trace for generation in service.generations] == [answer.headers["traceparent"]] * 2


async def test_who_is_refused_is_told_of_the_span_as_well(tracing_app: ASGIApp) -> None:
    answer = await post(tracing_app, "/v1/completions", {"prompt": 1}, traceparent=PARENT)
    assert answer.status == 400
    assert answer.headers["traceparent"].split("-")[1] == TRACE_ID


async def test_the_log_names_the_request_and_its_trace(
    app: ASGIApp, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    service.start_step = RuntimeError("a fault of ours")
    caplog.handler.setFormatter(JsonLines(str))
    with caplog.at_level(logging.ERROR):
        await post(app, "/v1/completions", {"prompt": "Hi"}, traceparent=PARENT, x_request_id="mine")
        await post(app, "/v1/completions", {"prompt": "Hi"}, x_request_id="other")
    first, second = map(json.loads, caplog.text.splitlines())
    assert (first["request_id"], first["trace_id"]) == ("mine", TRACE_ID)
    assert (second["request_id"], "trace_id" in second) == ("other", False)
