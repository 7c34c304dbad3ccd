"""grpc.health.v1.Health: whether a call sent now would be served. It is asked for nothing but that, by anybody."""

import asyncio
from collections.abc import Collection, Mapping

import grpc
from grpc_health.v1 import health_pb2 as pb

from tailrace.frontends.grpc.call import Call, Calls, Handler
from tailrace.frontends.grpc.failure import CallRefused
from tailrace.service.api import Service

__all__ = ["HEALTH", "Health"]

HEALTH = pb.DESCRIPTOR.services_by_name["Health"]

_LOOK_S = 0.5  # how late a watcher may learn of a change


class Health:
    """`names` are the services that share one state; the empty name is the server."""

    def __init__(self, service: Service, names: Collection[str], calls: Calls) -> None:
        self._service = service
        self._names = ("", *names)
        self._calls = calls

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return {
            "Check": self._calls.unary(pb.HealthCheckRequest, self.check),
            "List": self._calls.unary(pb.HealthListRequest, self.list),
            "Watch": self._calls.streaming(pb.HealthCheckRequest, self.watch),
        }

    async def check(self, request: pb.HealthCheckRequest, call: Call) -> pb.HealthCheckResponse:
        response = self._state_of(request.service)
        if response.status == pb.HealthCheckResponse.SERVICE_UNKNOWN:
            raise CallRefused(
                grpc.StatusCode.NOT_FOUND,
                f"there is no service {request.service[:128]!r} here",
                param="service",
                code="not_found",
            )
        return response

    async def list(self, request: pb.HealthListRequest, call: Call) -> pb.HealthListResponse:
        return pb.HealthListResponse(statuses={name: self._state_of(name) for name in self._names})

    async def watch(self, request: pb.HealthCheckRequest, call: Call) -> None:
        """The state at once, and whenever it is another; for as long as the client wants to know."""
        told: int | None = None
        while True:
            response = self._state_of(request.service)
            if response.status != told:
                told = response.status
                await call.write(response)
            await asyncio.sleep(_LOOK_S)

    def _state_of(self, name: str) -> pb.HealthCheckResponse:
        if name not in self._names:
            return pb.HealthCheckResponse(status=pb.HealthCheckResponse.SERVICE_UNKNOWN)
        is_served = self._service.is_ready
        return pb.HealthCheckResponse(
            status=pb.HealthCheckResponse.SERVING if is_served else pb.HealthCheckResponse.NOT_SERVING
        )
