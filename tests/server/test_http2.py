"""HTTP/2 with prior knowledge on the port of HTTP/1.1: many streams, slow ones, limits, and the end of the server."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator

import openai
import pytest
from h2.errors import ErrorCodes

from tailrace.frontends.http.http2 import PREFACE
from tests.server.in_thread import TIMEOUT_S, Server, serving
from tests.support.http2_client import Http2Client
from tests.support.scripted_service import ScriptedService, finish, token

NUM_STREAMS = 100
LONG = "x" * 1000
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
PING = b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)
UNKNOWN = b"\0\0\0\xff\0\0\0\0\0"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(ScriptedService()) as server:
        yield server


def ask(client: Http2Client, traceparent: tuple[str, ...] = (), **fields: object) -> int:
    body = json.dumps({"prompt": "Hi", "stream": True, **fields}).encode()
    headers = (("content-type", "application/json"), *(("traceparent", value) for value in traceparent))
    return client.request("POST", "/v1/completions", body, headers)


def test_a_hundred_streams_of_one_connection_run_at_once(server: Server) -> None:
    gate = asyncio.Event()
    server.service.script = [token("begin"), gate, token("end"), finish()]
    with Http2Client(server.port) as client:
        streams = [ask(client) for _ in range(NUM_STREAMS)]
        client.read_until(lambda: all(b"begin" in client.bodies[each] for each in streams))
        assert not client.ended
        server.call(gate.set)
        client.read_until(lambda: len(client.ended) == NUM_STREAMS)
        assert all(b"end" in client.bodies[each] and b"[DONE]" in client.bodies[each] for each in streams)


def test_each_stream_of_a_connection_has_a_trace_of_its_own(server: Server) -> None:
    """One that names two has none."""
    parents = [f"00-{digit * 32}-{'7' * 16}-01" for digit in "12"]
    with Http2Client(server.port) as client:
        first, second = (ask(client, traceparent=(parent,)) for parent in parents)
        both = ask(client, traceparent=tuple(parents))
        client.read_until(lambda: len(client.ended) == 3)
        told = [client.headers[stream].get(b"traceparent", b"").decode() for stream in (first, second, both)]
    assert [trace[:36] for trace in told] == [f"00-{digit * 32}-" for digit in "12"] + [""]
    assert sorted(generation.trace for generation in server.service.generations) == sorted(told)


def test_a_stream_that_is_not_read_holds_up_no_other(server: Server) -> None:
    server.service.script = [*[token(LONG)] * 200, finish()]
    with Http2Client(server.port, window_bytes=2000) as client:
        slow = ask(client)
        client.read_until(lambda: len(client.bodies[slow]) == 2000)
        quick = client.request("GET", "/health")
        client.read_until(lambda: quick in client.ended)
        assert len(client.bodies[slow]) == 2000
        client.h2.increment_flow_control_window(1_000_000, slow)
        client.flush()
        client.read_until(lambda: slow in client.ended)
        assert client.bodies[slow].count(LONG.encode()) >= 1
        assert client.bodies[slow].endswith(b"data: [DONE]\n\n")


def test_a_wider_window_of_all_streams_lets_them_go_on(server: Server) -> None:
    server.service.script = [token(LONG), finish()]
    with Http2Client(server.port, window_bytes=10) as client:
        stream = ask(client)
        client.read_until(lambda: len(client.bodies[stream]) == 10)
        client.h2.update_settings({4: 100_000})
        client.flush()
        client.read_until(lambda: stream in client.ended)
        assert LONG.encode() in client.bodies[stream]


def test_a_reset_aborts_its_request_alone(server: Server) -> None:
    gate = asyncio.Event()
    server.service.script = [token("a"), gate, finish()]
    with Http2Client(server.port) as client:
        gone, stays = ask(client), ask(client)
        client.read_until(lambda: bool(client.bodies[gone] and client.bodies[stays]))
        client.h2.reset_stream(gone, ErrorCodes.CANCEL)
        client.flush()
        assert server.service.closings.acquire(timeout=TIMEOUT_S)
        assert sum(each.num_closed for each in server.service.streams) == 1
        server.call(gate.set)
        client.read_until(lambda: stays in client.ended)


def test_a_closed_connection_aborts_all_its_requests(server: Server) -> None:
    server.service.script = [token("a"), asyncio.Event()]
    with Http2Client(server.port) as client:
        streams = [ask(client) for _ in range(3)]
        client.read_until(lambda: all(client.bodies[each] for each in streams))
    for _ in streams:
        assert server.service.closings.acquire(timeout=TIMEOUT_S)


def test_the_preface_may_come_in_pieces(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in PREFACE + SETTINGS:
            connection.send(bytes((byte,)))
        assert connection.recv(9)[3] == 4  # its settings


def test_what_only_begins_like_the_preface_is_http_1(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"P")
        connection.sendall(b"OST /v1/nothing HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 404"


def test_a_body_beyond_the_bound_is_refused_without_being_read(server: Server) -> None:
    with Http2Client(server.port) as client:
        headers = (("content-type", "application/json"), ("content-length", "1000000000"))
        stream = client.h2.get_next_available_stream_id()
        pseudo = ((":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/v1/completions"))
        client.h2.send_headers(stream, [*pseudo, *headers])
        client.flush()
        client.read_until(lambda: stream in client.ended)
        assert client.status[stream] == 413
        again = client.request("GET", "/health")
        client.read_until(lambda: again in client.ended)


def test_a_large_body_arrives_whole(server: Server) -> None:
    with Http2Client(server.port) as client:
        body = json.dumps({"prompt": "Hi", "stop": ["a"], "user": "b" * 600_000}).encode()
        stream = client.h2.get_next_available_stream_id()
        pseudo = ((":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/v1/completions"))
        client.h2.send_headers(stream, [*pseudo, ("content-type", "application/json")])
        while body:
            client.read_until(lambda: client.h2.local_flow_control_window(stream) > 0)
            room = min(client.h2.local_flow_control_window(stream), client.h2.max_outbound_frame_size)
            piece, body = body[:room], body[room:]
            client.h2.send_data(stream, piece, end_stream=not body)
            client.flush()
        client.read_until(lambda: stream in client.ended)
        assert client.status[stream] == 200


def test_who_only_opens_and_resets_is_sent_away(server: Server) -> None:
    with Http2Client(server.port) as client:
        for _ in range(1000):
            stream = client.h2.get_next_available_stream_id()
            client.h2.send_headers(
                stream, [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/health")]
            )
            client.h2.reset_stream(stream)
        with_all = client.h2.data_to_send()
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(with_all)
        client.read_to_close()


@pytest.mark.parametrize(
    "frame", [b"\0\0\0\x04\0\0\0\0\0", b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)], ids=["settings", "ping"]
)
def test_who_floods_is_sent_away(server: Server, frame: bytes) -> None:
    with Http2Client(server.port) as client:
        with contextlib.suppress(ConnectionError):
            client.socket.sendall(frame * 20_000)
        client.read_to_close()
    with Http2Client(server.port) as client:
        stream = client.request("GET", "/health")
        client.read_until(lambda: stream in client.ended)


def test_too_large_headers_are_refused(server: Server) -> None:
    with Http2Client(server.port) as client:
        client.request("GET", "/health", headers=tuple((f"x-{i}", "y" * 1000) for i in range(60)))
        client.read_to_close()
        assert client.goodbyes[0].error_code == ErrorCodes.ENHANCE_YOUR_CALM


def test_noise_after_the_preface_ends_the_connection(server: Server) -> None:
    with Http2Client(server.port) as client:
        client.socket.sendall(b"\xff" * 1000)
        client.read_to_close()
        assert client.goodbyes[0].error_code == ErrorCodes.FRAME_SIZE_ERROR


def test_a_draining_server_says_goodbye_and_finishes_what_is_under_way() -> None:
    gate = asyncio.Event()
    with (
        serving(ScriptedService([token("a"), gate, token("b"), finish()])) as server,
        Http2Client(server.port) as client,
    ):
        stream = ask(client)
        client.read_until(lambda: b"a" in client.bodies[stream])
        server.call(server.stop.set)
        assert server.is_stopping.wait(TIMEOUT_S)
        server.call(gate.set)
        raw = b"".join(iter(lambda: client.socket.recv(65536), b""))
        assert raw.count(b"\0\0\x08\x07") >= 1  # GOAWAY
        assert b"data: [DONE]" in raw


def test_the_public_client_streams_over_it(server: Server) -> None:
    with (
        openai.DefaultHttpxClient(http1=False, http2=True) as http2,
        openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", http_client=http2) as client,
    ):
        raw = client.completions.with_raw_response.create(model="tiny", prompt="a")
        assert raw.http_response.http_version == "HTTP/2"
        chunks = list(client.completions.create(model="tiny", prompt="a", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Hello world"
