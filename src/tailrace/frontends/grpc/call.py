"""One call: who makes it and what its metadata says; messages out of bytes and into them; errors into statuses."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from tailrace.classes import ServiceClasses
from tailrace.errors import InvalidRequest, Overloaded
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.claim import with_headers
from tailrace.frontends.faults import log_fault
from tailrace.frontends.following import following, note_trace
from tailrace.frontends.gaps import GapClock
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.failure import CallRefused, failure_of
from tailrace.frontends.headers import bearer_token, given_request_id, safe_request_id
from tailrace.frontends.rate_gate import Visit
from tailrace.frontends.standing import ANYBODY, Claim, Client, settle
from tailrace.service.api import Standing
from tailrace.telemetry.answers import AnswerCounts
from tailrace.telemetry.grpc import GrpcMetrics
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.log_context import LogContext, log_context

__all__ = ["Call", "Calls", "Context", "Handler"]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Request = TypeVar("Request", bound=Message)

_log = logging.getLogger(__name__)

_MIN_COMPRESSED_BYTES = 1024
_SHORTEST_S = 1e-3


class Call:
    """What the methods know of a call. `request_id` is the client's or ours, `unique_id` nobody else's."""

    def __init__(self, context: Context, config: GrpcConfig, counts: AnswerCounts) -> None:
        self._arrived_s = time.monotonic()
        self._context = context
        self._counts = counts
        self._class_name = ""  # in which it is served, once that is known
        self._stall_s = config.stall_s
        self._keys = config.api_keys
        self._gate = config.gate
        self._limit: asyncio.Timeout | None = None
        self.client: Client = ANYBODY  # until it is admitted
        pairs = _header_pairs(context)
        self.headers: Mapping[bytes, bytes] = dict(pairs)
        self.trace = config.tracing.begin(pairs)
        self.unique_id = secrets.token_hex(16)
        self.request_id = given_request_id(self.headers) or self.unique_id

    @property
    def traceparent(self) -> str:
        """Of the span that answers it; empty: nobody traces it."""
        return "" if self.trace is None else self.trace.traceparent

    @property
    def bearer_token(self) -> bytes | None:
        return bearer_token(self.headers)

    def admit(self) -> None:
        """Learns who calls. Raises Unauthorized for who has no key, where keys are asked for."""
        self.client = self._keys.admit(self.bearer_token, "metadata, authorization: Bearer KEY")

    def visiting(self) -> AbstractContextManager[Visit]:
        """Within this is what costs something. Raises Overloaded for who has used up its limits."""
        return self._gate.visiting(self.client, self._note_visit)

    @contextlib.contextmanager
    def followed(self, given_id: str = "") -> Iterator[RequestLife]:
        """Within this an answer is made. Its id for the engine cannot come twice: a client's own may, from a retry."""
        life = RequestLife(
            request_id=f"{safe_request_id(given_id) or self.request_id}-{self.unique_id[:12]}",
            endpoint="grpc",
            class_name="",
            accepted_s=self._arrived_s,
        )
        note_trace(life, self.trace)
        with following(self._counts.lives, life):
            yield life

    def standing(self, claim: Claim, classes: ServiceClasses) -> Standing:
        """Where the call stands. Nothing waits for longer than its deadline is away. Raises InvalidRequest."""
        claim = with_headers(claim, self.headers, classes)
        left_s: float | None = self._context.time_remaining()
        if left_s is not None:
            claim = replace(claim, queue_ttl_s=max(_SHORTEST_S, min(left_s, claim.queue_ttl_s or left_s)))
        standing = settle(claim, self.client, classes)
        self._class_name = standing.class_name
        return standing

    def clock(self, life: RequestLife, num_choices: int, *, is_streamed: bool = True) -> GapClock:
        """Measures what the reader of the answer feels, once its request is read. The call must have a standing."""
        life.class_name, life.parsed_s = self._class_name, time.monotonic()
        return GapClock(self._counts, life, num_choices, is_streamed=is_streamed)

    def count_refusal(self, refusal: Overloaded) -> None:
        """The call has ended so; one whose class is not known is no class's."""
        if self._class_name:
            self._counts.refuse(self._class_name, refusal.reason)

    async def write(self, message: Message) -> None:
        """Sends a message of a stream; waits while the client reads too slowly, until it has for too long."""
        assert self._limit is not None, "the call is no stream"
        data = self.packed(message)
        self._limit.reschedule(asyncio.get_running_loop().time() + self._stall_s)
        await self._context.write(data)
        self._limit.reschedule(None)

    def packed(self, message: Message) -> bytes:
        """The bytes of the next message to be sent, which are compressed if that is worth it."""
        data = message.SerializeToString()
        if len(data) < _MIN_COMPRESSED_BYTES:
            self._context.disable_next_message_compression()
        return data

    def _note_visit(self, visit: Visit) -> None:
        if visit.refusal is not None:
            self._class_name = self.client.class_name

    @contextlib.asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        """Within this, messages may be written. Raises CallRefused when the client has stopped to read."""
        if self.trace is not None:
            await self._context.send_initial_metadata((("traceparent", self.trace.traceparent),))
        try:
            async with asyncio.timeout(None) as self._limit:
                yield
        except TimeoutError:
            raise CallRefused(
                grpc.StatusCode.ABORTED,
                f"the client read nothing for {self._stall_s:g} s, so its answer was given up",
                code="stalled",
            ) from None


Answer = Callable[[Request, Call], Awaitable[Message]]
Stream = Callable[[Request, Call], Awaitable[None]]


class Calls:
    """Makes the methods of a front end out of what answers them."""

    def __init__(self, config: GrpcConfig, metrics: GrpcMetrics) -> None:
        self.config = config
        self._metrics = metrics

    @property
    def of_anybody(self) -> "Calls":
        """For methods that ask nobody for an API key."""
        return Calls(replace(self.config, api_keys=ApiKeys({})), self._metrics)

    def unary(self, kind: type[Request], answer: Answer[Request]) -> Handler:
        """A method with one answer."""

        async def behave(raw: bytes, context: Context) -> bytes:
            async with self._begun(context) as call:
                return call.packed(await answer(_parsed(kind, raw), call))
            raise AssertionError("a call that failed has been aborted")

        return grpc.unary_unary_rpc_method_handler(cast("Any", behave))  # the stubs know no methods that return bytes

    def streaming(self, kind: type[Request], stream: Stream[Request]) -> Handler:
        """A method with an answer of many messages, which it writes to the call."""

        async def behave(raw: bytes, context: Context) -> None:
            async with self._begun(context) as call, call.streaming():
                await stream(_parsed(kind, raw), call)

        return grpc.unary_stream_rpc_method_handler(cast("Any", behave))  # as above

    def refusing(self, reason: str) -> Handler:
        """A method that is known by name alone."""

        async def behave(raw: bytes, context: Context) -> bytes:
            async with self._begun(context):
                raise CallRefused(grpc.StatusCode.UNIMPLEMENTED, reason, code="unsupported_method")
            raise AssertionError("a call that failed has been aborted")

        return grpc.unary_unary_rpc_method_handler(cast("Any", behave))  # as above

    @contextlib.asynccontextmanager
    async def _begun(self, context: Context) -> AsyncIterator[Call]:
        """A call of somebody who may make it. The one place where errors become statuses."""
        call = Call(context, self.config, self._metrics.answers)
        log_context.set(LogContext(call.request_id, "" if call.trace is None else call.trace.trace_id))
        try:
            call.admit()
            yield call
        except Exception as error:
            failure = failure_of(error, call.request_id)
            if failure.is_ours:
                log_fault(_log, call.request_id, error)
            if isinstance(error, Overloaded):
                call.count_refusal(error)
            await context.abort(failure.status, failure.message, failure.metadata)


def _header_pairs(context: Context) -> list[tuple[bytes, bytes]]:
    pairs = context.invocation_metadata() or ()
    return [
        (key.encode(), value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape"))
        for key, value in pairs
    ]


def _parsed(kind: type[Request], raw: bytes) -> Request:
    """Raises InvalidRequest for what is no such message, and for fields that nobody knows here."""
    try:
        message = kind.FromString(raw)
    except DecodeError:
        raise InvalidRequest(f"the bytes are no {kind.DESCRIPTOR.full_name}") from None
    _check_known(message, "")
    return message


def _check_known(message: Message, place: str) -> None:
    """A field that is not known was meant to change something."""
    unknown = UnknownFieldSet(message)
    if len(unknown):
        number = unknown[0].field_number
        raise InvalidRequest(
            f"{message.DESCRIPTOR.full_name} has no field number {number} that this server knows",
            param=f"{place}{number}",
            code="unknown_parameter",
        )
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        inner = value if field.is_repeated else [value]
        for index, each in enumerate(inner):
            position = f"[{index}]" if field.is_repeated else ""
            _check_known(each, f"{place}{field.name}{position}.")
