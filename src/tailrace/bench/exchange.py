"""One HTTP/1.1 request and its answer on a connection of its own, cheap enough to run beside the server under test.

Body bytes reach the sink straight from the socket callback, with the time they were read. It knows nothing of JSON.
"""

import asyncio
import functools
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httptools

from tailrace.errors import SetupError

__all__ = ["Address", "BodySink", "Exchanged", "HttpError", "HttpRequest", "WireError", "exchange"]

MAX_ERROR_BODY_BYTES = 1 << 16
MAX_SHOWN_CHARS = 500
LINGER_S = 1.0

BodySink = Callable[[bytes, float], bool]
"""Takes body bytes and the time they were read; returns whether it has seen enough."""


class WireError(Exception):
    """Why an answer did not arrive. `kind` is a short label to count by, such as `timeout` or `http_503`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class HttpError(WireError):
    """An answer with another status than 200, and what it said."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"http_{status}", f"HTTP {status}: {said[:MAX_SHOWN_CHARS]}")
        self.status = status
        self.said = said


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and the path its API starts at (without `/v1`)."""

    host: str
    port: int
    is_tls: bool = False
    base_path: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, url: str, api_key: str | None = None) -> "Address":
        """Read `http://host:port[/path][/v1]`. Raises SetupError when it is none."""
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            raise SetupError(f"{url!r} is not a server's URL: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SetupError(f"{url!r} is not a server's URL: write it like http://127.0.0.1:8000")
        is_tls = parts.scheme == "https"
        headers = (("Authorization", f"Bearer {api_key}"),) if api_key else ()
        if any(not value.isprintable() for _, value in headers):
            raise SetupError("the API key holds control characters")
        base_path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, port or (443 if is_tls else 80), is_tls, base_path, headers)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.base_path}"

    def to_bytes(self, request: "HttpRequest") -> bytes:
        """A request to this server as it goes over the wire."""
        lines = [
            f"{request.method} {self.base_path}{request.path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Accept: text/event-stream, application/json",
            "Connection: close",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        if request.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (request.body or b"")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`body` is JSON; None sends none."""

    method: str
    path: str
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """When an exchange happened, in monotonic seconds; `sent_s` is the moment before the first byte was written."""

    connect_s: float  # how long the connection took
    sent_s: float
    ended_s: float


class _Connection(asyncio.Protocol):
    """Feeds what the socket gives to the HTTP parser; `done` resolves once, at the end or with a WireError."""

    def __init__(self, sink: BodySink) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._sink = sink
        self._parser = httptools.HttpResponseParser(self)
        self._now_s = 0.0
        self._status = 0
        self._is_framed = False  # its length is known or it is chunked: closing does not end it
        self._is_satisfied = False
        self._error_body = bytearray()

    def data_received(self, data: bytes) -> None:
        self._now_s = time.perf_counter()
        if self.done.done():
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(WireError("garbage", f"the answer is not HTTP/1.1: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        ends_by_closing = exc is None and self._status != 0 and not self._is_framed
        if self._is_satisfied or ends_by_closing:
            self._end()
        else:
            self._fail(WireError("disconnect", f"the server closed the connection mid-answer ({exc or 'end of file'})"))

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._is_framed |= name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._status != 200:
            self._error_body += body[: MAX_ERROR_BODY_BYTES - len(self._error_body)]
        elif not self._is_satisfied:
            self._offer(body)

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._end()

    def _offer(self, body: bytes) -> None:
        try:
            self._is_satisfied = self._sink(body, self._now_s)
        except Exception as error:  # belongs to the caller of `exchange`; the parser would wrap it
            self._fail(error)
        if self._is_satisfied:
            # Hanging up now would look like a client that went away, so the server may end its message first.
            self._loop.call_later(LINGER_S, self._end)

    def _end(self) -> None:
        if self._status != 200:
            self._fail(HttpError(self._status, self._error_body.decode("utf-8", "replace").strip()))
        elif not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def exchange(address: Address, request: HttpRequest, sink: BodySink, timeout_s: float) -> Exchanged:
    """Send one request and hand the body of its answer to `sink`.

    Raises WireError for whatever goes wrong on the wire, and what `sink` raises.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(address, address.to_bytes(request), sink)
    except TimeoutError as error:
        raise WireError("timeout", f"no complete answer within {timeout_s:g} s") from error


async def _exchange(address: Address, request: bytes, sink: BodySink) -> Exchanged:
    started_s = time.perf_counter()
    transport, connection = await _connect(address, sink)
    try:
        sent_s = time.perf_counter()
        transport.write(request)
        await connection.done
        return Exchanged(sent_s - started_s, sent_s, time.perf_counter())
    finally:
        transport.abort()


async def _connect(address: Address, sink: BodySink) -> tuple[asyncio.Transport, _Connection]:
    context = _tls_context() if address.is_tls else None
    loop = asyncio.get_running_loop()
    try:
        return await loop.create_connection(lambda: _Connection(sink), address.host, address.port, ssl=context)
    except (OSError, UnicodeError) as error:
        raise WireError("connect", f"cannot connect to {address.url}: {error}") from error


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
