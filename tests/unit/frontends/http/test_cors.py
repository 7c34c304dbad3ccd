"""Web pages of other origins: none may call unless the operator has named it."""

import pytest
from starlette.types import ASGIApp

from tailrace.errors import SetupError
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.cors import Cors, check_origins
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import Answer, ask, post
from tests.support.scripted_service import ScriptedService

PAGE, OTHER = "https://app.example.com", "https://evil.example.com"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


@pytest.fixture
def open_app(service: ScriptedService, metrics: Metrics) -> ASGIApp:
    return create_app(service, metrics, HttpConfig(cors=Cors(frozenset([PAGE]))))


def allowances(answer: Answer) -> set[str]:
    return {name for name in answer.headers if name.startswith("access-control-")}


async def test_without_origins_nothing_is_said_of_them(app: ASGIApp) -> None:
    answer = await post(app, "/v1/completions", {"prompt": "Hi"}, origin=PAGE)
    assert (answer.status, allowances(answer), "vary" in answer.headers) == (200, set(), False)
    asked = await ask(app, "/v1/completions", method="OPTIONS", headers={"origin": PAGE, **PREFLIGHT})
    assert (asked.status, allowances(asked)) == (405, set())


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_page_that_was_named_may_read_answers_and_errors(open_app: ASGIApp, is_streamed: bool) -> None:
    for fields in ({"prompt": "Hi", "stream": is_streamed}, {"prompt": 1}):
        answer = await post(open_app, "/v1/completions", fields, origin=PAGE)
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["vary"] == "origin"
        assert "x-ratelimit-remaining-requests" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers


async def test_a_browser_is_told_before_it_asks(open_app: ASGIApp, service: ScriptedService) -> None:
    answer = await ask(open_app, "/v1/chat/completions", method="OPTIONS", headers={"origin": PAGE, **PREFLIGHT})
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-methods"] == "GET, POST"
    assert "authorization" in answer.headers["access-control-allow-headers"].split(", ")
    assert service.generations == []


async def test_other_pages_are_told_nothing_and_caches_know(open_app: ASGIApp) -> None:
    answer = await ask(open_app, "/version", headers={"origin": OTHER})
    assert (answer.status, allowances(answer), answer.headers["vary"]) == (200, set(), "origin")
    asked = await ask(open_app, "/v1/completions", method="OPTIONS", headers={"origin": OTHER, **PREFLIGHT})
    assert (asked.status, allowances(asked)) == (405, set())


async def test_any_page_may_if_that_was_said(service: ScriptedService, metrics: Metrics) -> None:
    app = create_app(service, metrics, HttpConfig(cors=Cors(frozenset(["*"]))))
    answer = await ask(app, "/version", headers={"origin": OTHER})
    assert answer.headers["access-control-allow-origin"] == OTHER


@pytest.mark.parametrize(
    "origin", ["app.example.com", "https://a/", "https://a/b", "ftp://a", "null", "", "https://?x"]
)
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    check_origins(["http://localhost:3000", PAGE, "*"])
    with pytest.raises(SetupError, match="--cors-origin"):
        check_origins([origin])
