import grpc
import pytest
from grpc_health.v1 import health_pb2 as pb
from grpc_reflection.v1alpha import reflection_pb2

from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.standing import Client
from tests.support.grpc_server import Front, front_end, rich_error
from tests.support.scripted_service import ScriptedService

SERVING, NOT_SERVING = pb.HealthCheckResponse.SERVING, pb.HealthCheckResponse.NOT_SERVING
SERVICES = ["tailrace.v1.Inference", "vllm.grpc.engine.VllmEngine"]


async def status_of(front: Front, name: str) -> int:
    response = await front.ask(
        "/grpc.health.v1.Health/Check", pb.HealthCheckRequest(service=name), pb.HealthCheckResponse
    )
    return response.status


@pytest.mark.parametrize("name", ["", *SERVICES])
async def test_health_is_the_truth_at_each_point(front: Front, service: ScriptedService, name: str) -> None:
    assert await status_of(front, name) == SERVING
    service.is_ready = False
    assert await status_of(front, name) == NOT_SERVING


async def test_a_service_that_is_not_here_is_said_to_be_none(front: Front) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await status_of(front, "nobody")
    assert rich_error(caught.value).code is grpc.StatusCode.NOT_FOUND


async def test_all_services_are_listed(front: Front) -> None:
    response = await front.ask("/grpc.health.v1.Health/List", pb.HealthListRequest(), pb.HealthListResponse)
    assert {name: each.status for name, each in response.statuses.items()} == dict.fromkeys(["", *SERVICES], SERVING)


async def test_a_watcher_is_told_of_changes_alone(front: Front, service: ScriptedService) -> None:
    watch = front.channel.unary_stream(
        "/grpc.health.v1.Health/Watch", pb.HealthCheckRequest.SerializeToString, pb.HealthCheckResponse.FromString
    )
    call = watch(pb.HealthCheckRequest())
    seen = []
    async for response in call:
        seen.append(response.status)
        service.is_ready = not service.is_ready
        if len(seen) == 3:
            break
    call.cancel()
    assert seen == [SERVING, NOT_SERVING, SERVING]


async def test_a_watcher_of_an_unknown_service_is_told_so_and_waits(front: Front) -> None:
    watch = front.channel.unary_stream(
        "/grpc.health.v1.Health/Watch", pb.HealthCheckRequest.SerializeToString, pb.HealthCheckResponse.FromString
    )
    call = watch(pb.HealthCheckRequest(service="nobody"))
    assert await call.read() == pb.HealthCheckResponse(status=pb.HealthCheckResponse.SERVICE_UNKNOWN)
    call.cancel()


async def test_balancers_need_no_key() -> None:
    keys = ApiKeys({"sk-0123456789abcdef": Client("shop")})
    async with front_end(ScriptedService(), GrpcConfig(api_keys=keys)) as front:
        assert await status_of(front, "") == SERVING


async def test_reflection_shows_the_services(front: Front) -> None:
    ask = front.channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICES[0]),
    ]
    listed, file = [response async for response in ask(iter(requests))]
    names = {each.name for each in listed.list_services_response.service}
    assert names == {*SERVICES, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    assert b"GenerateRequest" in file.file_descriptor_response.file_descriptor_proto[0]
