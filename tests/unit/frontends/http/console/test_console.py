"""The console over HTTP: its files are for everybody, its feed for who has a key."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import ASGIApp

from tailrace.classes import STANDARD
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig, Patience
from tailrace.frontends.http.console.console import Console
from tailrace.frontends.http.console.feed import LiveFeed
from tailrace.frontends.http.console.files import page_files
from tailrace.frontends.http.console.frames import FrameMaker
from tailrace.frontends.http.status import OneProcess
from tailrace.frontends.standing import ANYBODY
from tailrace.telemetry.feed.builder import FrameBuilder, ServerFacts
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import ask, talk
from tests.support.scripted_service import MODEL, ScriptedService

FACTS = ServerFacts(MODEL.name, "1.2.3", budget_tokens=512, num_api_processes=1, started_s=0.0)
KEY = {"authorization": "Bearer secret"}


def make_app(metrics: Metrics, config: HttpConfig) -> tuple[ASGIApp, LiveFeed]:
    service, server = ScriptedService(), OneProcess(metrics)
    maker = FrameMaker(server, FrameBuilder(FACTS, lambda: STANDARD), lambda: True)
    feed = LiveFeed(maker.make, every_s=0.001)
    console = Console(server, feed, metrics.http, Patience())
    return create_app(service, metrics, config, server, console=console), feed


@pytest.fixture
def app(metrics: Metrics) -> ASGIApp:
    return make_app(metrics, HttpConfig())[0]


async def read_frame(app: ASGIApp, **headers: str) -> Any:
    conversation = talk(app, "/console/feed", method="GET", headers=headers)
    piece = (await asyncio.wait_for(conversation.read(), 5)).decode()
    conversation.leave()
    await conversation.end()
    assert piece.startswith("event: frame\ndata: {")
    assert piece.endswith("}\n\n")
    return json.loads(piece.removeprefix("event: frame\ndata: "))


async def test_the_page_is_at_the_root_and_may_load_nothing_from_elsewhere(app: ASGIApp) -> None:
    answer = await ask(app, "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self'; ")
    assert answer.body.startswith(b"<!doctype html>")


async def test_each_file_is_given_with_its_type_and_not_twice(app: ASGIApp) -> None:
    for path, file in page_files().items():
        answer = await ask(app, f"/console/static/{path}")
        assert (answer.status, answer.body) == (200, file.content)
        if path.endswith(".js"):
            assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        again = await ask(app, f"/console/static/{path}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["nothing.js", "../console.py", "/etc/passwd", "%2e%2e/files.py", ""])
async def test_nothing_else_is_given(app: ASGIApp, path: str) -> None:
    answer = await ask(app, f"/console/static/{path}")
    assert answer.status == 404


async def test_the_feed_has_a_frame_at_once(app: ASGIApp) -> None:
    frame = await read_frame(app)
    assert (frame["model"], frame["is_ready"]) == (MODEL.name, True)
    assert [each["name"] for each in frame["classes"]] == ["gold", "silver", "bronze"]


async def test_what_is_shown_is_for_who_has_a_key_where_there_are_any(metrics: Metrics) -> None:
    app, _ = make_app(metrics, HttpConfig(api_keys=ApiKeys({"secret": ANYBODY})))
    assert (await ask(app, "/")).status == 200
    for path in ("/console/feed", "/console/requests/r1"):
        assert (await ask(app, path)).status == 401
    assert (await read_frame(app, **KEY))["model"] == MODEL.name


async def test_the_feed_ends_with_the_server(metrics: Metrics) -> None:
    app, feed = make_app(metrics, HttpConfig())
    conversation = talk(app, "/console/feed", method="GET", headers={})
    await asyncio.wait_for(conversation.read(), 5)
    feed.close()
    assert (await conversation.end()).is_complete


async def test_the_head_of_the_feed_is_an_answer_that_ends(app: ASGIApp) -> None:
    answer = await asyncio.wait_for(ask(app, "/console/feed", method="HEAD"), 5)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_one_request_is_told_in_parts(app: ASGIApp, metrics: Metrics) -> None:
    life = RequestLife(
        request_id="a/b",
        endpoint="chat",
        class_name="gold",
        accepted_s=5.0,
        parsed_s=5.5,
        ended_s=6.0,
        error="refused",
    )
    metrics.lives.begin(life)
    metrics.lives.end(life)
    told = (await ask(app, "/console/requests/a/b")).json()
    assert (told["id"], told["class"], told["error"], told["took_s"]) == ("a/b", "gold", "refused", 1.0)
    assert told["parts"] == [
        {"name": "accept", "start_s": 0.0, "end_s": 0.5, "tokens": 0},
        {"name": "tokenise", "start_s": 0.5, "end_s": 1.0, "tokens": 0},
    ]


async def test_a_request_is_found_by_the_id_that_its_client_has(app: ASGIApp, metrics: Metrics) -> None:
    for name, accepted_s in (("mine-1a2b", 1.0), ("mine-3c4d", 2.0), ("mine2-5e6f", 3.0)):
        metrics.lives.begin(
            RequestLife(request_id=name, endpoint="chat", class_name="gold", accepted_s=accepted_s, ended_s=9.0)
        )
    assert (await ask(app, "/console/requests/mine")).json()["id"] == "mine-3c4d"
    assert (await ask(app, "/console/requests/mine-1a2b")).json()["id"] == "mine-1a2b"
    assert (await ask(app, "/console/requests/min")).status == 404


async def test_a_request_that_is_not_known_is_404(app: ASGIApp) -> None:
    answer = await ask(app, "/console/requests/nobody")
    assert answer.status == 404
    assert "not known" in answer.json()["error"]["message"]


async def test_without_a_console_there_is_no_page(metrics: Metrics) -> None:
    app = create_app(ScriptedService(), metrics, HttpConfig())
    assert (await ask(app, "/")).status == 404
    assert (await ask(app, "/console/feed")).status == 404
