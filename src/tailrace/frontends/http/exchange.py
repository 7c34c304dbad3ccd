"""One HTTP request and its answer over raw ASGI messages: body in, whole or streamed answer out, client gone or not."""

import asyncio
import re
import secrets
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import TypeVar

from starlette.types import Receive, Scope, Send

from tailrace.frontends.http.openai.errors import BodyTooLarge, UnsupportedMediaType

__all__ = ["ClientGone", "Exchange"]

Result = TypeVar("Result")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_JSON = (b"content-type", b"application/json")
_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ClientGone(Exception):
    """The client closed its connection before its answer was complete."""


class Exchange:
    """`phase` says how far it is: body, waiting (for the first text), answering. `status` is None before the start."""

    __slots__ = (
        "_receive",
        "_send",
        "arrived_s",
        "headers",
        "is_complete",
        "is_stream",
        "path_params",
        "phase",
        "request_id",
        "status",
        "unique_id",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.arrived_s = time.perf_counter()
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.unique_id = secrets.token_hex(16)
        self.request_id = self._given_request_id() or self.unique_id
        self.path_params: Mapping[str, str] = {}  # the router knows them
        self.phase = "body"
        self.status: int | None = None
        self.is_stream = False
        self.is_complete = False
        self._receive = receive
        self._send = send

    def _given_request_id(self) -> str | None:
        """The client's x-request-id, if it is safe to echo and to log."""
        given = self.headers.get(b"x-request-id", b"").decode("latin-1")
        return given if _REQUEST_ID.fullmatch(given) else None

    async def read_json(self, max_bytes: int) -> bytes:
        """The body. Raises UnsupportedMediaType, BodyTooLarge, ClientGone."""
        self._check_media_type()
        body = await self._read(max_bytes)
        self.phase = "waiting"
        return body

    def _check_media_type(self) -> None:
        kind, _, parameters = self.headers.get(b"content-type", b"application/json").lower().partition(b";")
        charset = parameters.partition(b"charset=")[2].strip(b' "')
        if kind.strip() != b"application/json" or charset not in (b"", b"utf-8", b"utf8"):
            raise UnsupportedMediaType("send the body as content-type application/json, in UTF-8")
        if self.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise UnsupportedMediaType("send the body without content-encoding")

    async def _read(self, max_bytes: int) -> bytes:
        too_large = BodyTooLarge(f"the body is larger than {max_bytes} bytes")
        announced = self.headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > max_bytes:
            raise too_large
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)

    async def unless_gone(self, work: Coroutine[None, None, Result]) -> Result:
        """The result of `work`, which is cancelled at once when the client goes; then raises ClientGone."""
        worker = asyncio.ensure_future(work)
        watcher = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait((worker, watcher), return_when=asyncio.FIRST_COMPLETED)
            if not worker.done() and not self.is_complete:
                raise ClientGone
            return await worker
        finally:
            worker.cancel()
            watcher.cancel()
            await asyncio.gather(worker, watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def respond_json(self, body: bytes) -> None:
        await self.respond(200, body)

    async def respond(
        self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = (), *, content_type: str | None = None
    ) -> None:
        """A whole answer; JSON unless another content type is given."""
        kind = _JSON if content_type is None else (b"content-type", content_type.encode())
        await self._start(status, [kind, (b"content-length", b"%d" % len(body)), *headers])
        await self._finish(body)

    async def start_stream(self) -> None:
        self.is_stream = True
        await self._start(200, list(_STREAM))

    async def write(self, data: bytes) -> None:
        """Sends a piece of a stream; waits while the client reads too slowly."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self) -> None:
        await self._finish(b"")

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.phase = "answering"
        self.status = status
        headers.append((b"x-request-id", self.request_id.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _finish(self, body: bytes) -> None:
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
