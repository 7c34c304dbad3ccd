"""Limits of a key on the wire: 429 with the time to come back, and what is left in every answer's headers."""

import asyncio

import pytest
from starlette.types import ASGIApp

from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.rate_headers import rate_headers
from tailrace.frontends.rate_gate import Left, RateGate, Visit
from tailrace.frontends.rate_table import RateTable
from tailrace.frontends.standing import Client, ClientLimits
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import Answer, ask, post, talk
from tests.support.broken_gate import BrokenGate
from tests.support.scripted_service import ScriptedService, token

KEYS = {
    "sk-requests-012345": Client("requests", "gold", "gold", ClientLimits(requests_per_minute=2)),
    "sk-tokens-01234567": Client("tokens", "gold", "gold", ClientLimits(tokens_per_minute=20)),
    "sk-one-0123456789a": Client("one", "gold", "gold", ClientLimits(max_requests=1)),
    "sk-free-0123456789": Client("free", "gold", "gold"),
}
REQUESTS, TOKENS, ONE, FREE = KEYS
PROMPT = {"prompt": "Hi"}


class Clock:
    now_ns = 10**12

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(service: ScriptedService, metrics: Metrics, clock: Clock) -> ASGIApp:
    gate = RateGate(RateTable.alone(), clock_ns=clock)
    return create_app(service, metrics, HttpConfig(api_keys=ApiKeys(KEYS), gate=gate))


async def complete(app: ASGIApp, key: str, **fields: object) -> Answer:
    return await post(app, "/v1/completions", PROMPT | fields, authorization=f"Bearer {key}")


def limits_of(answer: Answer) -> dict[str, str]:
    return {name[12:]: value for name, value in answer.headers.items() if name.startswith("x-ratelimit-")}


async def test_every_answer_says_what_is_left(app: ASGIApp) -> None:
    streamed = await complete(app, REQUESTS, stream=True)
    assert limits_of(streamed) == {"limit-requests": "2", "remaining-requests": "1", "reset-requests": "30s"}
    bad = await complete(app, REQUESTS, nonsense=1)
    assert bad.status == 400
    assert limits_of(bad) == {"limit-requests": "2", "remaining-requests": "0", "reset-requests": "1m0s"}
    assert limits_of(await complete(app, FREE)) == {}


async def test_one_request_too_many_is_told_when_to_come_back(
    app: ASGIApp, service: ScriptedService, clock: Clock, metrics: Metrics
) -> None:
    for _ in range(2):
        assert (await complete(app, REQUESTS)).status == 200
    clock.now_ns += 1_500_000_000
    answer = await complete(app, REQUESTS)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "29"
    assert answer.headers["retry-after-ms"] == "28500"
    assert answer.headers["x-llm-d-request-dropped-reason"] == "rate_limited"
    assert answer.headers["x-service-class"] == "gold"
    assert limits_of(answer)["remaining-requests"] == "0"
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limited")
    assert len(service.generations) == 2
    exposition = (await ask(app, "/metrics")).body.decode()
    assert 'tailrace_requests_refused_total{class="gold",reason="rate_limited"} 1.0' in exposition

    clock.now_ns += 28_500_000_000
    assert (await complete(app, REQUESTS)).status == 200
    assert (await complete(app, FREE)).status == 200


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"prompt": ["Hi", "you"]}])
async def test_what_cannot_be_charged_is_not_computed_on(
    service: ScriptedService, metrics: Metrics, fields: dict[str, object]
) -> None:
    app = create_app(service, metrics, HttpConfig(gate=BrokenGate()))
    assert (await post(app, "/v1/completions", PROMPT | fields)).status == 500
    assert [stream.num_closed for stream in service.streams] == [1] * len(service.streams) != []


async def test_only_what_costs_something_counts(app: ASGIApp) -> None:
    headers = {"authorization": f"Bearer {REQUESTS}"}
    for _ in range(5):
        assert (await ask(app, "/v1/models", headers=headers)).status == 200
    for _ in range(2):
        assert (await post(app, "/tokenize", PROMPT, authorization=headers["authorization"])).status == 200
    assert (await post(app, "/tokenize", PROMPT, authorization=headers["authorization"])).status == 429


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_tokens_of_prompt_and_answer_count(app: ASGIApp, is_streamed: bool) -> None:
    first = await complete(app, TOKENS, stream=is_streamed)  # 7 of the prompt, 2 of the answer
    assert limits_of(first) == {"limit-tokens": "20", "remaining-tokens": "20", "reset-tokens": "0ms"}
    assert limits_of(await complete(app, TOKENS, stream=is_streamed))["remaining-tokens"] == "11"
    assert limits_of(await complete(app, TOKENS, stream=is_streamed))["remaining-tokens"] == "2"
    refused = await complete(app, TOKENS, stream=is_streamed)
    assert refused.status == 429
    assert refused.headers["retry-after-ms"] == "24000"  # 27 are used, and 20 may be, with one of the next
    assert "tokens a minute" in refused.json()["error"]["message"]


async def test_a_client_that_leaves_has_used_what_was_computed_and_is_here_no_more(
    app: ASGIApp, service: ScriptedService
) -> None:
    gate = asyncio.Event()
    service.script = (token("a"), token("b"), gate)
    for key in (ONE, TOKENS):
        body = b'{"prompt": "Hi", "stream": true}'
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        conversation = talk(app, "/v1/completions", body, headers=headers)
        await conversation.read()
        if key == ONE:
            refused = await complete(app, ONE)
            assert refused.status == 429
            assert refused.json()["error"]["code"] == "tenant_limit"
        conversation.leave()
        await conversation.end()
    service.script = ScriptedService.script
    assert (await complete(app, ONE)).status == 200
    assert limits_of(await complete(app, TOKENS))["remaining-tokens"] == "11"


@pytest.mark.parametrize(
    ("reset_s", "shown"),
    [(0.0, "0ms"), (0.1204, "120ms"), (0.9996, "1s"), (8.64, "8.64s"), (60, "1m0s"), (361.5, "6m1.5s")],
)
def test_times_are_written_as_openai_does(reset_s: float, shown: str) -> None:
    assert dict(rate_headers(Visit(tokens=Left(5, 1, reset_s))))[b"x-ratelimit-reset-tokens"] == shown.encode()
