"""What a stream sends while nothing happens, and what becomes of clients that take nothing."""

import asyncio
import json
from dataclasses import replace

import pytest
from starlette.types import ASGIApp

from tailrace.errors import Overloaded, RefusalReason
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig, Patience
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import Conversation, talk
from tests.support.scripted_service import ScriptedService, finish, token

COMMENT = b": keep-alive\n\n"
MOMENT_S = 0.005
LONG_S = 3600.0
LATE = Overloaded("it waited", retry_after_s=2.5, reason=RefusalReason.QUEUE_TIMEOUT)


@pytest.fixture
def config(config: HttpConfig) -> HttpConfig:
    return replace(config, patience=Patience(keep_alive_s=MOMENT_S, stall_s=LONG_S))


def open_stream(app: ASGIApp) -> Conversation:
    return talk(app, "/v1/completions", b'{"prompt":"Hi","stream":true}')


def count(metrics: Metrics, sample: str) -> float:
    (line,) = [
        line
        for line in metrics.render("")[0].decode().splitlines()
        if line.startswith((sample + " ", sample + '{front_end="http"}', sample + '{class="silver",front_end="http"}'))
    ]
    return float(line.rpartition(" ")[2])


async def test_a_stream_that_waits_for_its_first_text_says_that_it_lives(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    gate = asyncio.Event()
    service.script = [gate, token("a"), finish()]
    conversation = open_stream(app)
    assert [await conversation.read() for _ in range(3)] == [COMMENT] * 3
    assert conversation.answer.status == 200
    assert conversation.answer.headers["content-type"].startswith("text/event-stream")
    assert count(metrics, "tailrace_first_text_seconds_count") == 0
    gate.set()
    answer = await conversation.end()
    answer.pieces = [piece for piece in answer.pieces if piece != COMMENT]
    assert [event["choices"][0]["text"] for event in answer.events()] == ["a", ""]
    assert count(metrics, "tailrace_first_text_seconds_count") == 1


async def test_silence_between_two_pieces_of_text_is_filled_too(app: ASGIApp, service: ScriptedService) -> None:
    gate = asyncio.Event()
    service.script = [token("a"), gate, finish()]
    conversation = open_stream(app)
    assert b'"a"' in await conversation.read()
    assert await conversation.read() == COMMENT
    assert await conversation.read() == COMMENT
    gate.set()
    assert (await conversation.end()).pieces[-1].endswith(b"[DONE]\n\n")


async def test_who_is_turned_away_behind_a_comment_gets_an_event(app: ASGIApp, service: ScriptedService) -> None:
    gate = asyncio.Event()
    service.script = [gate, LATE]
    conversation = open_stream(app)
    await conversation.read()
    gate.set()
    answer = await conversation.end()
    assert answer.status == 200
    assert answer.is_complete
    assert json.loads(answer.pieces[-1].removeprefix(b"data: "))["error"]["code"] == "queue_timeout"


async def test_who_goes_behind_a_comment_was_still_waiting(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    service.script = [asyncio.Event()]
    conversation = open_stream(app)
    await conversation.read()
    conversation.leave()
    await conversation.end()
    assert count(metrics, 'tailrace_http_client_disconnects_total{phase="waiting"}') == 1
    assert service.stream.num_closed == 1


async def test_a_silence_of_nothing_sends_no_comment(
    app: ASGIApp, service: ScriptedService, metrics: Metrics, config: HttpConfig
) -> None:
    gate = asyncio.Event()
    service.script = [gate, finish()]
    patience = replace(config.patience, keep_alive_s=0.0)
    silent = open_stream(create_app(service, metrics, replace(config, patience=patience)))
    beside = open_stream(app)
    assert [await beside.read() for _ in range(3)] == [COMMENT] * 3
    gate.set()
    assert len((await silent.end()).pieces) == 1
    await beside.end()


@pytest.mark.parametrize("is_in_silence", [False, True])
@pytest.mark.parametrize("can_cut", [False, True])
async def test_a_client_that_takes_nothing_is_cut_off_alone(
    service: ScriptedService, metrics: Metrics, config: HttpConfig, *, can_cut: bool, is_in_silence: bool
) -> None:
    """Whether it was a piece of text or a comment that it did not take."""
    service.script = [asyncio.Event()] if is_in_silence else [token("a"), finish()]
    app = create_app(service, metrics, replace(config, patience=Patience(keep_alive_s=MOMENT_S, stall_s=2 * MOMENT_S)))
    conversation = open_stream(app)
    if can_cut:
        conversation.scope["state"] = {"tailrace.cut": conversation.leave}
    conversation.can_write.clear()
    answer = await conversation.end()
    assert not answer.is_complete
    assert service.stream.num_closed == 1
    assert count(metrics, 'tailrace_http_client_disconnects_total{phase="stalled"}') == 1
    assert count(metrics, "tailrace_http_buffered_bytes") == 0
    assert count(metrics, "tailrace_http_requests_in_flight") == 0


async def test_a_client_that_takes_nothing_and_goes_was_being_written_to(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    service.script = [token("a"), finish()]
    conversation = open_stream(app)
    conversation.can_write.clear()
    while count(metrics, "tailrace_http_buffered_bytes") == 0:
        await asyncio.sleep(0)
    conversation.leave()
    await conversation.end()
    assert count(metrics, 'tailrace_http_client_disconnects_total{phase="writing"}') == 1
    assert service.stream.num_closed == 1


async def test_tokens_that_leave_together_are_counted(app: ASGIApp, service: ScriptedService, metrics: Metrics) -> None:
    service.script = [replace(token("abc"), token_ids=(1, 2, 3)), token("d"), finish()]
    await open_stream(app).end()
    assert count(metrics, "tailrace_coalesced_tokens_total") == 2
