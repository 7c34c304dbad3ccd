"""A gRPC front end on a free port of the running loop, and clients of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.serve import serve_grpc
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.service.api import Service
from tailrace.telemetry.prometheus import Metrics

__all__ = ["GENERATE", "Front", "RichError", "front_end", "raw_stream", "rich_error"]

GENERATE = "/tailrace.v1.Inference/Generate"

Metadata = Sequence[tuple[str, str]]
Answer = TypeVar("Answer", bound=Message)


@dataclass
class Front:
    """A running front end, and a channel to it."""

    port: int
    channel: grpc.aio.Channel
    stop: asyncio.Event
    serving: asyncio.Task[None]

    def generate(
        self, request: pb.GenerateRequest, *, metadata: Metadata = (), timeout: float | None = None
    ) -> grpc.aio.UnaryStreamCall[pb.GenerateRequest, pb.GenerateResponse]:
        method: grpc.aio.UnaryStreamMultiCallable[pb.GenerateRequest, pb.GenerateResponse] = self.channel.unary_stream(
            GENERATE, pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString
        )
        return method(request, metadata=tuple(metadata), timeout=timeout)

    async def ask(self, path: str, request: Message, kind: type[Answer], metadata: Metadata = ()) -> Answer:
        method: grpc.aio.UnaryUnaryMultiCallable[Message, Answer] = self.channel.unary_unary(
            path, lambda message: message.SerializeToString(), kind.FromString
        )
        return await method(request, metadata=tuple(metadata))


@asynccontextmanager
async def front_end(
    service: Service,
    config: GrpcConfig | None = None,
    *,
    metrics: Metrics | None = None,
    options: Sequence[tuple[str, int]] = (),
    grace_s: float = 5.0,
) -> AsyncIterator[Front]:
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_grpc(
            service,
            config or GrpcConfig(version="1.2.3"),
            (metrics or Metrics(model_name="tiny", version="1.2.3")).grpc,
            "127.0.0.1:0",
            stop=stop,
            on_ready=port.set_result,
            grace_s=grace_s,
        )
    )
    await asyncio.wait((serving, port), return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    # A pool of its own: channels to one address share a connection otherwise.
    own = (("grpc.use_local_subchannel_pool", 1), *options)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port.result()}", options=own) as channel:
        try:
            yield Front(port.result(), channel, stop, serving)
        finally:
            stop.set()
    await serving


def raw_stream(front: Front, path: str, body: bytes) -> grpc.aio.UnaryStreamCall[bytes, bytes]:
    """A call with bytes of any kind."""
    method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = front.channel.unary_stream(path)
    return method(body)


@dataclass(frozen=True)
class RichError:
    """What the end of a failed call says."""

    code: grpc.StatusCode
    message: str
    reason: str
    field: str | None
    retry_s: float | None
    headers: dict[str, str | bytes]


def rich_error(error: grpc.aio.AioRpcError) -> RichError:
    headers = dict(error.trailing_metadata() or ())
    packed = headers["grpc-status-details-bin"]
    assert isinstance(packed, bytes)
    status = Status.FromString(packed)
    info, request, retry = ErrorInfo(), BadRequest(), RetryInfo()
    found = [detail.Unpack(kind) for detail in status.details for kind in (info, request, retry)]
    assert sum(found) == len(status.details)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    violations = request.field_violations
    return RichError(
        error.code(),
        status.message,
        info.reason,
        violations[0].field if violations else None,
        retry.retry_delay.ToMilliseconds() / 1e3 if retry.HasField("retry_delay") else None,
        headers,
    )
