"""The gRPC front end, as the tests of all front ends see it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.service.api import Service
from tailrace.telemetry.prometheus import Metrics
from tests.contract.front_ends.adapter import FrontEnd, Piece, Refused, Wish
from tests.support.grpc_server import Front, front_end, rich_error

__all__ = ["over_grpc"]

_FINISHES = {pb.FINISH_UNSPECIFIED: None, pb.FINISH_STOP: "stop", pb.FINISH_LENGTH: "length"}


@asynccontextmanager
async def over_grpc(service: Service, metrics: Metrics, directory: Path) -> AsyncIterator[FrontEnd]:
    # Without probes for a wider window, which would hold all that the tests have to say.
    async with front_end(service, metrics=metrics, options=[("grpc.http2.bdp_probe", 0)], grace_s=0.0) as front:
        yield GrpcFrontEnd(front)


class GrpcFrontEnd:
    def __init__(self, front: Front) -> None:
        self._front = front

    async def start(self, wish: Wish) -> "GrpcReading":
        request = pb.GenerateRequest(
            text=wish.prompt,
            max_tokens=wish.max_tokens,
            sampling=pb.Sampling(temperature=wish.temperature, top_p=wish.top_p, seed=wish.seed),
            n=wish.n,
            stop=wish.stop,
            logprobs=wish.logprobs,
            service_class=wish.service_class,
            tenant=wish.tenant,
        )
        return GrpcReading(self._front.generate(request))


class GrpcReading:
    def __init__(self, call: "grpc.aio.UnaryStreamCall[pb.GenerateRequest, pb.GenerateResponse]") -> None:
        self.usage = (0, 0)
        self._call = call

    async def __aiter__(self) -> AsyncIterator[Piece]:
        try:
            async for message in self._call:
                if message.HasField("usage"):
                    self.usage = message.usage.prompt_tokens, message.usage.completion_tokens
                yield _piece(message)
        except grpc.aio.AioRpcError as error:
            raise _refused(error) from error

    async def leave(self) -> None:
        self._call.cancel()


def _piece(message: pb.GenerateResponse) -> Piece:
    which = message.WhichOneof("stop")
    stop = None if which is None else getattr(message, which)
    logprobs = tuple(each.logprob for each in message.logprobs)
    return Piece(message.index, message.text, _FINISHES[message.finish], stop, logprobs)


def _refused(error: grpc.aio.AioRpcError) -> Refused:
    rich = rich_error(error)
    if rich.code is grpc.StatusCode.INVALID_ARGUMENT:
        return Refused("too long" if rich.reason == "CONTEXT_LENGTH_EXCEEDED" else "invalid", rich.field)
    if rich.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Refused("overloaded", None, rich.retry_s)
    return Refused("unavailable", None, rich.retry_s) if rich.code is grpc.StatusCode.UNAVAILABLE else Refused("failed")
