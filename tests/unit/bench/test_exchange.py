import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tailrace.bench.exchange import Address, HttpRequest, WireError, exchange
from tailrace.errors import SetupError
from tests.unit.bench.scripted import Asked, Script, head, json_answer, scripted

GET = HttpRequest("GET", "/v1/models")


def always(*pieces: bytes) -> Script:
    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return script


async def fetch(url: str, timeout_s: float = 10.0, enough: Callable[[bytes], bool] = lambda _: False) -> bytes:
    body = bytearray()

    def sink(piece: bytes, _now_s: float) -> bool:
        body.extend(piece)
        return enough(bytes(body))

    await exchange(Address.parse(url), GET, sink, timeout_s)
    return bytes(body)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example:8123", ("example", 8123, False, "")),
        ("example:8123/v1", ("example", 8123, False, "")),
        ("https://example/api/v1/", ("example", 443, True, "/api")),
        ("http://[::1]:81", ("::1", 81, False, "")),
    ],
)
def test_an_address_is_read_with_or_without_scheme_port_and_v1(url: str, expected: tuple[str, int, bool, str]) -> None:
    address = Address.parse(url)

    assert (address.host, address.port, address.is_tls, address.base_path) == expected


@pytest.mark.parametrize(
    "url", ["ftp://example", "http://", "http://example:port", "http://example:99999", "http://[::1"]
)
def test_what_is_no_address_is_refused_with_what_was_given(url: str) -> None:
    with pytest.raises(SetupError, match="is not a server's URL"):
        Address.parse(url)


def test_an_api_key_with_control_characters_is_refused() -> None:
    with pytest.raises(SetupError, match="API key"):
        Address.parse("http://example", "key\r\nX-Other: 1")


@pytest.mark.parametrize(
    "answer",
    [
        head(length=5) + b"hello",
        head() + b"hello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + head(length=5) + b"hello",
    ],
    ids=["with length", "until close", "chunked", "after continue"],
)
async def test_a_body_arrives_whole_however_it_is_framed_and_cut(answer: bytes) -> None:
    for cut in (1, len(answer) // 2, len(answer)):
        async with scripted(always(answer[:cut], answer[cut:])) as server:
            assert await fetch(server.url) == b"hello"


async def test_the_request_names_host_path_key_and_length() -> None:
    async with scripted(always(json_answer({}))) as server:
        address = Address.parse(server.url + "/base/v1", "secret")
        await exchange(address, HttpRequest("POST", "/v1/completions", b'{"a":1}'), lambda _body, _now_s: False, 10.0)

    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/base/v1/completions", {"a": 1})
    assert asked.headers["host"] == f"127.0.0.1:{address.port}"
    assert asked.headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "garbage", "not HTTP"),
        (b"", "disconnect", "mid-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "disconnect", "mid-answer"),
        (head(length=10) + b"hello", "disconnect", "mid-answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "disconnect", "mid-answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "garbage", "not HTTP"),
        (json_answer({"error": "queue full"}, 429), "http_429", "queue full"),
        (head(503) + b"loading", "http_503", "loading"),
        (head(500) + b"x" * 1_000_000, "http_500", "xxx"),
    ],
)
async def test_whatever_goes_wrong_has_a_kind_and_a_message(answer: bytes, kind: str, message: str) -> None:
    async with scripted(always(answer)) as server:
        with pytest.raises(WireError, match=message) as caught:
            await fetch(server.url)

    assert caught.value.kind == kind
    assert len(str(caught.value)) < 1000


async def test_nobody_listening_is_a_failure_to_connect() -> None:
    async with scripted(always()) as server:
        pass

    with pytest.raises(WireError, match=r"cannot connect to http://127\.0\.0\.1") as caught:
        await fetch(server.url)

    assert caught.value.kind == "connect"


async def test_a_silent_server_times_out() -> None:
    forever = asyncio.Event()

    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        yield head()
        await forever.wait()

    async with scripted(script) as server:
        with pytest.raises(WireError, match=r"within 0\.05 s") as caught:
            await fetch(server.url, timeout_s=0.05)
        forever.set()

    assert caught.value.kind == "timeout"


async def test_a_satisfied_sink_ends_the_exchange_though_the_server_stays() -> None:
    forever = asyncio.Event()

    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        yield head() + b"enough"
        await forever.wait()

    async with scripted(script) as server:
        assert await fetch(server.url, enough=lambda body: body == b"enough") == b"enough"
        forever.set()


@pytest.mark.parametrize("error", [WireError("garbage", "no thanks"), BrokenPipeError("no reader")])
async def test_what_a_sink_raises_reaches_the_caller_as_it_is(error: Exception) -> None:
    def refuse(_body: bytes, _now_s: float) -> bool:
        raise error

    async with scripted(always(head() + b"hello")) as server:
        with pytest.raises(type(error), match=str(error)):
            await exchange(Address.parse(server.url), GET, refuse, 10.0)
