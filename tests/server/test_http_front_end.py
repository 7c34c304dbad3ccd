"""The HTTP front end on a real socket: uvicorn, the public client, disconnects, and the end of the server."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import openai
import pytest
import uvloop

from tailrace.errors import SetupError
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.serve import bind, serve
from tailrace.service.api import TextLogprob
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.scripted_service import MODEL, ScriptedService, finish, token

LOGPROBS = (TextLogprob(5, "Hi", b"Hi", -0.5, (TextLogprob(6, "Ho", b"Ho", -1.5),)),)
TIMEOUT_S = 20


@dataclass
class Server:
    """A server in a thread of its own. Gates of a script belong to its loop: set them with `call`."""

    service: ScriptedService
    listener: socket.socket = field(default_factory=lambda: bind("127.0.0.1", 0))
    is_ready: threading.Event = field(default_factory=threading.Event)
    is_stopping: threading.Event = field(default_factory=threading.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    grace_s: int = 3600

    def __post_init__(self) -> None:
        self.port = self.listener.getsockname()[1]

    def run(self) -> None:
        uvloop.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        app = create_app(self.service, Metrics(model_name="tiny", version="0"), HttpConfig())
        await serve(
            app,
            self.listener,
            on_ready=self.is_ready.set,
            on_stop=self._drain,
            stop=self.stop,
            grace_s=self.grace_s,
        )

    def _drain(self) -> None:
        self.service.is_ready = False
        self.is_stopping.set()

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)


@contextlib.contextmanager
def serving(service: ScriptedService, *, grace_s: int = 3600) -> Iterator[Server]:
    server = Server(service, grace_s=grace_s)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.is_ready.wait(TIMEOUT_S)
    try:
        yield server
    finally:
        with contextlib.suppress(RuntimeError):  # its loop may have ended by itself
            server.call(server.stop.set)
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


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
