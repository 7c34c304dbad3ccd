"""One HTTP request and its answer over raw ASGI messages: body in, whole or streamed answer out, client gone or not."""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from tailrace.errors import InvalidRequest
from tailrace.frontends.client_gone import ClientGone
from tailrace.frontends.headers import bearer_token, given_request_id
from tailrace.frontends.http.errors import BodyStalled, BodyTooLarge, ErrorShape, Failure, UnsupportedMediaType
from tailrace.frontends.http.openai.errors import OPENAI_ERRORS
from tailrace.frontends.rate_gate import UNLIMITED_VISIT, Visit
from tailrace.frontends.standing import ANYBODY, Client
from tailrace.frontends.trace_context import TraceContext, Tracing
from tailrace.telemetry.log_context import LogContext, log_context

__all__ = ["ClientGone", "Exchange"]

Result = TypeVar("Result")

BODY_PAUSE_S = 30.0  # so long a client may send nothing of a body that it has begun

_JSON = (b"content-type", b"application/json")
_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Exchange:
    """`phase` says how far it is: body, waiting (for the first text), answering, writing (a piece of a stream, that
    the client does not take). `status` is None before the start.

    `service_class` is the one that it is served in, once that is known: every answer says so. `more_headers` are those
    that every answer has besides.
    """

    __slots__ = (
        "_cut",
        "_header_pairs",
        "_query_string",
        "_receive",
        "_send",
        "_watcher",
        "arrived_s",
        "client",
        "error_shape",
        "failure_frames",
        "headers",
        "is_bodiless",
        "is_complete",
        "more_headers",
        "path_params",
        "phase",
        "request_id",
        "service_class",
        "status",
        "trace",
        "unique_id",
        "visit",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.arrived_s = time.monotonic()
        self._header_pairs: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers = dict(self._header_pairs)
        self.is_bodiless = scope["method"] == "HEAD"  # the head of the answer is all that is sent
        self.unique_id = secrets.token_hex(16)
        self.request_id = given_request_id(self.headers) or self.unique_id
        self.path_params: Mapping[str, str] = {}  # the router knows them
        self.client: Client = ANYBODY  # whoever checks keys knows better
        self.error_shape: ErrorShape = OPENAI_ERRORS  # the route knows better
        self.failure_frames: Callable[[Failure], bytes] | None = None  # ends a stream; None: none has been begun
        self.visit: Visit = UNLIMITED_VISIT
        self.trace: TraceContext | None = None  # whoever begins its span knows it
        self.service_class: str | None = None
        self.more_headers: list[tuple[bytes, bytes]] = []
        self.phase = "body"
        self.status: int | None = None
        self.is_complete = False
        self._query_string: bytes = scope["query_string"]
        self._receive = receive
        self._send = send
        # The server may say in the scope how to drop a connection at once, with what waits in its buffers.
        self._cut: Callable[[], None] | None = scope.get("state", {}).get("tailrace.cut")
        self._watcher: asyncio.Task[None] | None = None

    @property
    def bearer_token(self) -> bytes | None:
        """What was sent as 'Authorization: Bearer TOKEN'."""
        return bearer_token(self.headers)

    def enter_span(self, tracing: Tracing, before: str = "") -> None:
        """Begin the span in which it is answered, if anybody traces it; its client is told. Once.

        `before` is that of an answer that it takes up.
        """
        trace = self.trace = tracing.begin(self._header_pairs, before)
        if trace is not None:
            log_context.set(LogContext(self.request_id, trace.trace_id))
            self.more_headers.append((b"traceparent", trace.traceparent.encode()))

    @property
    def traceparent(self) -> str:
        """Of the span that answers it; empty: nobody traces it."""
        return "" if self.trace is None else self.trace.traceparent

    def read_query(self, max_bytes: int) -> dict[str, str]:
        """The fields behind the path's question mark. Raises InvalidRequest, BodyTooLarge."""
        if len(self._query_string) > max_bytes:
            raise BodyTooLarge(f"the query is longer than {max_bytes} bytes: send its fields as the body of a POST")
        try:
            pairs = parse_qsl(self._query_string.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError:
            raise InvalidRequest("the query is not UTF-8 in percent-encoding") from None
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise InvalidRequest("a field is in the query twice; send it once")
        self.phase = "waiting"
        return fields

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
            message = await self._next_piece()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)

    async def _next_piece(self) -> Message:
        try:
            async with asyncio.timeout(BODY_PAUSE_S):
                return await self._receive()
        except TimeoutError:
            raise BodyStalled(f"nothing of the body came for {BODY_PAUSE_S:.0f} s; send the request again") from None

    async def unless_gone(self, work: Coroutine[None, None, Result]) -> Result:
        """The result of `work`, which is cancelled at once when the client goes; then raises ClientGone."""
        worker = asyncio.ensure_future(work)
        watcher = self._watcher = asyncio.create_task(self._watch())
        try:
            await asyncio.wait((worker, watcher), return_when=asyncio.FIRST_COMPLETED)
            if not worker.done() and (not self.is_complete or self.phase == "stalled"):
                raise ClientGone
            return await worker
        finally:
            worker.cancel()
            watcher.cancel()
            await asyncio.gather(worker, watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def cut_off(self) -> None:
        """Gives up a client that takes nothing: `unless_gone` ends as if it had gone by itself."""
        self.phase = "stalled"
        if self._cut is not None:
            self._cut()
        elif self._watcher is not None:
            self._watcher.cancel()

    async def respond_json(self, body: bytes) -> None:
        await self.respond(200, body)

    async def respond(
        self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = (), *, content_type: str | None = None
    ) -> None:
        """A whole answer; JSON unless another content type is given."""
        kind = _JSON if content_type is None else (b"content-type", content_type.encode())
        self.phase = "answering"
        await self._start(status, [kind, (b"content-length", b"%d" % len(body)), *headers])
        await self._finish(body)

    async def start_stream(self) -> None:
        """Begins an event stream; its `phase` is for whoever writes to it."""
        await self._start(200, list(_STREAM))

    async def write(self, data: bytes) -> None:
        """Sends a piece of a stream; waits while the client reads too slowly. Raises ClientGone once it is cut off."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        if self.phase == "stalled":  # nobody takes what is sent to a closed connection, and nobody says so
            raise ClientGone

    async def end_stream(self) -> None:
        await self._finish(b"")

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        headers += self.more_headers
        headers.append((b"x-request-id", self.request_id.encode()))
        if self.service_class is not None:
            headers.append((b"x-service-class", self.service_class.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _finish(self, body: bytes) -> None:
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
