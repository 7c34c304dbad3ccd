"""Heads of requests on a real connection: what is too much or never complete is refused, and holds nothing."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tailrace.frontends.http import exchange, request_head
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.listener import bind
from tailrace.frontends.http.request_head import MAX_HEAD_BYTES, MAX_HEADERS, HeadWatch
from tailrace.frontends.http.serve import serve
from tailrace.telemetry.prometheus import Metrics
from tests.support.scripted_service import MODEL, ScriptedService


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = create_app(ScriptedService(), Metrics(model_name=MODEL.name, version="0"), HttpConfig())
    stop, ready = asyncio.Event(), asyncio.Event()
    with bind("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(serve(app, listener, on_ready=ready.set, stop=stop, grace_s=1))
        await ready.wait()
        yield listener.getsockname()[1]
        stop.set()
        await serving


async def said(port: int, *pieces: bytes) -> bytes:
    """All that is answered until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


GET = b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"


async def test_a_head_within_the_bounds_is_served_however_it_is_cut(port: int) -> None:
    head = GET + b"".join(b"x-%d: y\r\n" % i for i in range(MAX_HEADERS - 2)) + b"\r\n"
    assert (await said(port, head)).startswith(b"HTTP/1.1 200")
    assert (await said(port, *(head[i : i + 100] for i in range(0, len(head), 100)))).startswith(b"HTTP/1.1 200")
    large = GET + b"x: " + b"y" * (MAX_HEAD_BYTES - 1000) + b"\r\n\r\n"
    assert (await said(port, large)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "more",
    [
        b"".join(b"x-%d: y\r\n" % i for i in range(MAX_HEADERS)) + b"\r\n",
        b"x: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"x: " + b"y" * (40 * MAX_HEAD_BYTES),  # and never an end
    ],
)
async def test_too_much_is_431_and_the_end(port: int, more: bytes) -> None:
    answer = await said(port, GET, more)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431") or not answer  # it may close while there is still much to be read
    if answer:
        assert json.loads(body)["error"]["code"] == "headers_too_large"
    assert (await said(port, GET + b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_long_address_counts(port: int) -> None:
    answer = await said(port, b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nhost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")


async def test_requests_one_behind_the_other_are_each_counted_for_themselves(port: int) -> None:
    kept = b"GET /version HTTP/1.1\r\nhost: a\r\nx: " + b"y" * (MAX_HEAD_BYTES // 2) + b"\r\n\r\n"
    answer = await said(port, kept * 6 + GET + b"\r\n")
    assert answer.count(b"HTTP/1.1 200") == 7


async def test_who_never_ends_a_head_is_cut_off() -> None:
    gone = asyncio.Event()
    watch = HeadWatch(gone.set, timeout_s=0.01)
    watch.begin()
    assert watch.is_in_head
    await asyncio.wait_for(gone.wait(), 10)
    ended = asyncio.Event()
    watch = HeadWatch(ended.set, timeout_s=0.0)
    watch.begin()
    watch.end()
    await asyncio.sleep(0.02)
    assert not ended.is_set()


async def test_a_connection_without_a_request_ends(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_head.HeadWatch.__init__, "__defaults__", (0.05,))
    assert await said(port) == b""
    assert await said(port, b"GET /version HT") == b""


async def test_a_body_that_stops_coming_is_408(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BODY_PAUSE_S", 0.05)
    head = b"POST /v1/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 100\r\n\r\n"
    answer = await said(port, head, b'{"prompt"')
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"body_stalled" in answer
