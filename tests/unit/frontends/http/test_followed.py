"""What an exchange adds to the life of its request: its place in a trace, and the status of its answer."""

import json
from contextlib import suppress

import pytest
from starlette.types import ASGIApp

from tailrace.errors import Overloaded, UnavailableError
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.trace_context import Tracing
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import Answer, post, talk
from tests.support.scripted_service import ScriptedService, finish, thought, token

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
FIELDS: dict[str, object] = {"prompt": "hello", "max_tokens": 3, "n": 2, "seed": 5, "temperature": 0.25}
FULL = Overloaded("full", retry_after_s=1.0)


@pytest.fixture
def app(service: ScriptedService, metrics: Metrics) -> ASGIApp:
    return create_app(service, metrics, HttpConfig(tracing=Tracing(TraceSampler())))


def the_life(metrics: Metrics) -> RequestLife:
    (life,) = metrics.lives.lives()
    return life


async def test_a_life_has_its_place_in_a_trace_and_what_was_asked(app: ASGIApp, metrics: Metrics) -> None:
    answer = await post(app, "/v1/completions", FIELDS, traceparent=PARENT, tracestate="rojo=1")
    life = the_life(metrics)
    assert life.trace == answer.headers["traceparent"]
    assert (life.parent_span_id, life.trace_state) == ("00f067aa0ba902b7", "rojo=1")
    assert (life.num_choices, life.seed, life.is_streamed) == (2, 5, False)
    assert life.sampling is not None
    assert (life.sampling.max_tokens, life.sampling.temperature) == (3, 0.25)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_life_has_the_id_and_the_status_of_its_answer(
    app: ASGIApp, metrics: Metrics, is_streamed: bool
) -> None:
    answer = await post(app, "/v1/completions", {"prompt": "hello", "stream": is_streamed})
    first = answer.events()[0] if is_streamed else answer.json()
    life = the_life(metrics)
    assert (life.answer_id, life.status, life.is_streamed) == (first["id"], 200, is_streamed)


async def test_a_life_counts_the_tokens_of_thoughts(app: ASGIApp, service: ScriptedService, metrics: Metrics) -> None:
    service.script = (thought("Hm"), token("Hello"), finish())
    await post(app, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
    life = the_life(metrics)
    assert (life.num_output_tokens, life.num_reasoning_tokens) == (2, 1)


async def refused(app: ASGIApp, path: str) -> Answer:
    fields = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "model": "tiny"}
    return await post(app, path, fields)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("error", [FULL, UnavailableError("draining"), RuntimeError("a fault")])
async def test_who_is_refused_has_the_status_that_its_client_is_told(
    app: ASGIApp, service: ScriptedService, metrics: Metrics, path: str, error: Exception
) -> None:
    """Two APIs, which have different ones for the same."""
    service.start_step = error
    answer = await refused(app, path)
    assert answer.status is not None
    assert answer.status >= 400
    assert the_life(metrics).status == answer.status


async def test_what_fails_behind_its_head_keeps_the_status_of_the_head(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    service.script = (token("Hello"), UnavailableError("it died"))
    await post(app, "/v1/completions", {"prompt": "hello", "stream": True})
    life = the_life(metrics)
    assert (life.status, life.error) == (200, "unavailable")


async def test_whose_client_goes_has_the_status_that_is_counted(app: ASGIApp, metrics: Metrics) -> None:
    conversation = talk(app, "/v1/completions", json.dumps({"prompt": "hello"}).encode()[:4], is_body_whole=False)
    conversation.leave()
    with suppress(TimeoutError):
        await conversation.end()
    assert the_life(metrics).status == 499
