"""The HTTP front end on a real socket: uvicorn, the public client, disconnects, and the end of the server."""

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from typing import cast

import openai
import pytest

from tailrace.errors import SetupError
from tailrace.frontends.http.config import Patience
from tailrace.frontends.http.listener import bind
from tailrace.service.api import TextLogprob, TextPrompt
from tailrace.types import FinishReason
from tests.server.in_thread import TIMEOUT_S, Server, serving
from tests.support.scripted_service import MODEL, ScriptedService, finish, token

LOGPROBS = (TextLogprob(5, "Hi", b"Hi", -0.5, (TextLogprob(6, "Ho", b"Ho", -1.5),)),)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(ScriptedService()) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
        yield client


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)


def connect_slowly(server: Server) -> socket.socket:
    """A connection whose client's side takes up few bytes that nobody reads."""
    connection = socket.socket()
    connection.settimeout(TIMEOUT_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", server.port))
    return connection


def status_of(server: Server, method: str, path: str, body: str | None = None) -> int:
    """The status of one request over a connection of its own."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)) as connection:
        connection.request(method, path, body)
        return connection.getresponse().status


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(10_000), b""))


def completion_request(**fields: object) -> bytes:
    body = json.dumps({"prompt": "Hi", **fields}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def test_the_public_client_reads_a_chat_answer(client: openai.OpenAI, server: Server) -> None:
    server.service.script = [token("Hi", logprobs=LOGPROBS), finish(reason=FinishReason.LENGTH)]
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL.name, messages=[{"role": "user", "content": "a"}], logprobs=True, top_logprobs=1
    )
    answer = raw.parse()
    assert raw.headers["x-request-id"] == answer._request_id
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == "Hi"
    assert choice.finish_reason == "length"
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert choice.logprobs.content[0].top_logprobs[0].token == "Ho"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 4


def test_the_public_client_reads_a_chat_stream(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "a"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert [chunk.choices[0].delta.content for chunk in chunks[:-1]] == ["", "Hello", " world", None]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 9


def test_the_public_client_reads_completions_both_ways(client: openai.OpenAI, server: Server) -> None:
    server.service.script = [token("Hi", logprobs=LOGPROBS), finish()]
    whole = client.completions.create(model="tiny", prompt="a", logprobs=1)
    assert whole.choices[0].text == "Hi"
    assert whole.choices[0].logprobs is not None
    assert whole.choices[0].logprobs.text_offset == [0]
    assert whole.choices[0].logprobs.top_logprobs == [{"Hi": -0.5, "Ho": -1.5}]
    chunks = list(client.completions.create(model="tiny", prompt="a", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Hi"


def test_the_public_client_lists_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny", "tiny-latest"]
    assert client.models.retrieve("tiny").owned_by == "tailrace"


def test_the_public_client_raises_our_errors(client: openai.OpenAI, server: Server) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="tiny", prompt="a", best_of=2)
    assert (refused.value.param, refused.value.code) == ("best_of", "unsupported_parameter")
    with pytest.raises(openai.NotFoundError, match="gpt-x"):
        client.completions.create(model="gpt-x", prompt="a")


def test_the_public_client_raises_an_error_in_mid_stream(client: openai.OpenAI, server: Server) -> None:
    gate = asyncio.Event()
    server.service.script = [token("a"), gate, finish(reason=FinishReason.ERROR, error="x")]
    stream = iter(client.completions.create(model="tiny", prompt="a", stream=True))
    assert next(stream).choices[0].text == "a"
    server.call(gate.set)
    with pytest.raises(openai.APIError, match="the server failed"):
        next(stream)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_closed_connection_ends_the_work(server: Server, is_streamed: bool) -> None:
    server.service.script = [token("a"), asyncio.Event()]
    with connect(server) as connection:
        connection.sendall(completion_request(stream=is_streamed))
        if is_streamed:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert server.service.closings.acquire(timeout=TIMEOUT_S)


def test_a_client_that_reads_nothing_is_cut_off_and_nobody_else() -> None:
    """It is not sent what fills its connection, which is bounded, and its work ends."""
    endless = [token("x" * 100)] * 20_000
    scripts = {"endless": endless, "short": [token("a"), finish()]}
    service = ScriptedService(script_of=lambda generation: scripts[cast("TextPrompt", generation.prompt).text])
    with serving(service, patience=Patience(stall_s=0.2)) as server, connect_slowly(server) as stalled:
        stalled.sendall(completion_request(prompt="endless", stream=True))
        assert service.closings.acquire(timeout=TIMEOUT_S)
        assert service.streams[0].num_read * 100 < 500_000
        with connect(server) as reader:
            reader.sendall(completion_request(prompt="short", stream=True))
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                part = reader.recv(10_000)
                assert part, f"cut off behind {answer!r}"
                answer += part
        with pytest.raises(ConnectionResetError):
            pytest.fail(f"the end came behind {len(read_all(stalled))} bytes")
    exposition = server.metrics.render("")[0].decode()
    counts = re.findall(r'tailrace_http_client_disconnects_total{phase="(\w+)"} ([1-9])', exposition)
    assert counts == [("stalled", "1")]


def test_a_client_that_reads_slowly_gets_all_of_its_answer() -> None:
    texts = [f"{i:0500}" for i in range(2000)]
    with serving(ScriptedService([*map(token, texts), finish()])) as server, connect_slowly(server) as connection:
        connection.sendall(completion_request(stream=True))
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            answer += connection.recv(5_000)
    frames = [line for line in answer.decode().splitlines() if line.startswith("data: {")]
    assert "".join(json.loads(frame[6:])["choices"][0]["text"] for frame in frames) == "".join(texts)


def test_a_silent_stream_says_on_the_wire_that_it_lives() -> None:
    service = ScriptedService([asyncio.Event()])
    with serving(service, patience=Patience(keep_alive_s=0.01)) as server, connect(server) as connection:
        connection.sendall(completion_request(stream=True))
        answer = b""
        while answer.count(b": keep-alive\n\n") < 3:
            answer += connection.recv(1000)
        assert answer.startswith(b"HTTP/1.1 200")
    assert service.closings.acquire(timeout=TIMEOUT_S)


def test_one_connection_serves_one_request_after_another(server: Server) -> None:
    with connect(server) as connection:
        for _ in range(3):
            connection.sendall(completion_request(stream=True))
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += connection.recv(10_000)
            assert b"data: [DONE]" in answer
    assert all(server.service.closings.acquire(timeout=TIMEOUT_S) for _ in range(3))


def test_a_stopping_server_says_so_first_and_finishes_what_it_began() -> None:
    gate = asyncio.Event()
    service = ScriptedService([token("a"), gate, token("b"), finish()])
    with serving(service) as server, connect(server) as connection:
        connection.sendall(completion_request(stream=True))
        answer = connection.recv(1000)
        server.call(server.stop.set)
        assert server.is_stopping.wait(TIMEOUT_S)
        server.call(gate.set)
        answer += read_all(connection)
    assert b'"text":"b"' in answer
    assert answer.endswith(b"0\r\n\r\n")
    with pytest.raises(ConnectionRefusedError):
        connect(server)


def test_a_draining_server_still_answers_who_asks_and_takes_no_work() -> None:
    gate = asyncio.Event()
    with serving(ScriptedService([token("a"), gate, token("b"), finish()])) as server, connect(server) as connection:
        connection.sendall(completion_request(stream=True))
        connection.recv(1000)
        server.call(server.stop.set)
        assert server.is_stopping.wait(TIMEOUT_S)
        assert status_of(server, "GET", "/health") == 200
        assert status_of(server, "GET", "/ready") == 503
        assert status_of(server, "POST", "/v1/completions", '{"prompt":"Hi"}') == 503
        server.call(gate.set)
        assert b'"text":"b"' in read_all(connection)
    with pytest.raises(ConnectionRefusedError):
        connect(server)


def test_a_server_that_owes_no_answer_stops_without_waiting() -> None:
    with serving(ScriptedService()) as server, connect(server) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += idle.recv(1000)
        server.call(server.stop.set)
        assert read_all(idle) == b""


def test_an_answer_that_outlasts_the_grace_is_cut_and_told_why() -> None:
    with (
        serving(ScriptedService([token("a"), asyncio.Event()]), grace_s=0) as server,
        connect(server) as connection,
    ):
        connection.sendall(completion_request(stream=True))
        connection.recv(1000)
        server.call(server.stop.set)
        assert b'"code":"unavailable"' in read_all(connection)
    assert server.service.closings.acquire(timeout=TIMEOUT_S)


@pytest.mark.timeout(60)
def test_a_second_interrupt_cuts_the_wait_short() -> None:
    server = Server(ScriptedService([token("a"), asyncio.Event()]))
    told = []

    def interrupt_twice() -> None:
        assert server.is_ready.wait(TIMEOUT_S)
        with connect(server) as connection:
            connection.sendall(completion_request(stream=True))
            connection.recv(1000)
            os.kill(os.getpid(), signal.SIGINT)
            assert server.is_stopping.wait(TIMEOUT_S)
            os.kill(os.getpid(), signal.SIGINT)
            told.append(read_all(connection))

    client = threading.Thread(target=interrupt_twice)
    client.start()
    server.run()  # signals reach the main thread only
    client.join(TIMEOUT_S)
    (last_words,) = told
    assert b'"code":"unavailable"' in last_words


def test_a_taken_port_is_refused_before_anything_else() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SetupError, match=rf"port {port} .* taken .*--port"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "port", "option"),
    [("192.0.2.1", 0, "--host"), ("no such host", 0, "--host"), ("127.0.0.1", 70_000, "--port")],
)
def test_an_address_that_cannot_be_had_is_explained(host: str, port: int, option: str) -> None:
    with pytest.raises(SetupError, match=option):
        bind(host, port)
