"""One HTTP/2 stream as an ASGI request. Knows no frames: a `Wire` sends them, and tells what it received."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

__all__ = ["Header", "Http2Stream", "Wire", "make_scope"]

_log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]

_OF_THE_CONNECTION = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"))


class Wire(Protocol):
    """What a stream asks of its connection. A stream that is gone asks nothing."""

    def send_headers(self, stream_id: int, headers: Iterable[Header], *, is_last: bool) -> None: ...

    def room(self, stream_id: int) -> int:
        """Bytes that the client, and the connection, take of this stream now; 0: wait for `wake`."""
        ...

    def send_data(self, stream_id: int, data: memoryview, *, is_last: bool) -> None: ...

    def take(self, stream_id: int, num_bytes: int) -> None:
        """The application took bytes of the body: as many more may come."""
        ...

    def cut(self, stream_id: int) -> None:
        """Drops a stream whose client takes nothing."""
        ...

    def finish(self, stream_id: int) -> None:
        """The application is done with it; an answer that is not complete is reset."""
        ...


def make_scope(headers: Iterable[Header]) -> Scope:
    """An ASGI scope of a request's headers, whose pseudo-headers have been checked."""
    pseudo: dict[bytes, bytes] = {}
    plain: list[Header] = []
    for name, value in headers:
        if name[:1] == b":":
            pseudo[bytes(name)] = bytes(value)
        else:
            plain.append((bytes(name), bytes(value)))
    if b":authority" in pseudo:
        plain = [(b"host", pseudo[b":authority"]), *(each for each in plain if each[0] != b"host")]
    raw_path, _, query = pseudo[b":path"].partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "2",
        "scheme": "http",
        "root_path": "",
        "method": pseudo[b":method"].decode("ascii", "replace"),
        "path": unquote(raw_path.decode("ascii", "replace")),
        "raw_path": raw_path,
        "query_string": query,
        "headers": plain,
        "state": {},
    }


class Http2Stream:
    """`is_complete`: the whole answer was handed to the wire. `is_gone`: the client gave it up, or was cut off."""

    __slots__ = (
        "_body",
        "_has_body_ended",
        "_has_told_end",
        "_inbound",
        "_is_head",
        "_outbound",
        "_started",
        "_wire",
        "is_complete",
        "is_gone",
        "stream_id",
    )

    def __init__(self, wire: Wire, stream_id: int, *, is_head: bool) -> None:
        self.stream_id = stream_id
        self.is_complete = False
        self.is_gone = False
        self._wire = wire
        self._is_head = is_head
        self._body = bytearray()
        self._has_body_ended = False
        self._has_told_end = False
        self._started: list[Header] | None = None  # headers that wait for the first piece of the body
        self._inbound = asyncio.Event()
        self._outbound = asyncio.Event()

    @property
    def has_whole_body(self) -> bool:
        return self._has_body_ended

    @property
    def num_unread(self) -> int:
        return len(self._body)

    def feed(self, data: bytes) -> None:
        self._body += data
        self._inbound.set()

    def feed_end(self) -> None:
        self._has_body_ended = True
        self._inbound.set()

    def wake(self) -> None:
        """There may be room again."""
        self._outbound.set()

    def leave(self) -> None:
        """The client is gone: whoever waits is told, and what is sent from now on goes nowhere."""
        self.is_gone = True
        self._inbound.set()
        self._outbound.set()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        scope["state"]["tailrace.cut"] = self._cut
        try:
            await app(scope, self.receive, self.send)
        except Exception:
            _log.exception("the application failed")
        finally:
            self._wire.finish(self.stream_id)

    def _cut(self) -> None:
        if not self.is_gone:
            self._wire.cut(self.stream_id)

    async def receive(self) -> Message:
        while not (self.is_gone or self.is_complete):
            if self._body or (self._has_body_ended and not self._has_told_end):
                return self._take_body()
            self._inbound.clear()
            await self._inbound.wait()
        return {"type": "http.disconnect"}

    def _take_body(self) -> Message:
        body = bytes(self._body)
        self._body.clear()
        self._has_told_end = self._has_body_ended
        if body:
            self._wire.take(self.stream_id, len(body))
        return {"type": "http.request", "body": body, "more_body": not self._has_told_end}

    async def send(self, message: Message) -> None:
        if self.is_gone or self.is_complete:
            return
        if message["type"] == "http.response.start":
            status = (b":status", b"%d" % message["status"])
            self._started = [status, *(each for each in message["headers"] if each[0] not in _OF_THE_CONNECTION)]
            return
        await self._send_body(message.get("body", b""), is_last=not message.get("more_body", False))

    async def _send_body(self, body: bytes, *, is_last: bool) -> None:
        if self._is_head:
            body = b""
        if self._started is not None:
            headers, self._started = self._started, None
            has_ended = is_last and not body
            self._wire.send_headers(self.stream_id, headers, is_last=has_ended)
            if has_ended:
                self._complete()
        left = memoryview(body)
        while not (self.is_gone or self.is_complete) and (left or is_last):
            left = await self._send_piece(left, is_last=is_last)

    async def _send_piece(self, data: memoryview, *, is_last: bool) -> memoryview:
        """Sends as much as goes; returns the rest."""
        room = self._wire.room(self.stream_id)
        if data and room <= 0:
            self._outbound.clear()
            await self._outbound.wait()
            return data
        piece, rest = data[:room], data[room:]
        ends = is_last and not rest
        self._wire.send_data(self.stream_id, piece, is_last=ends)
        if ends:
            self._complete()
        return rest

    def _complete(self) -> None:
        self.is_complete = True
        self._inbound.set()
