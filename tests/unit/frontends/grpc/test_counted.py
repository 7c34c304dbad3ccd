"""Each call is counted by its method and by how it ended."""

import asyncio

import grpc
import pytest

from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.standing import Client, ClientLimits
from tailrace.telemetry.prometheus import Metrics
from tests.support.grpc_server import Front, front_end
from tests.support.scripted_service import ScriptedService, token

TEXT = pb.GenerateRequest(text="Once")
KEY = ("authorization", "Bearer sk-0123456789abcdef")
CALLS = "tailrace_grpc_calls_total"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(model_name="tiny", version="1.2.3")


def shown(metrics: Metrics, name: str) -> dict[str, float]:
    lines = [line for line in metrics.render("")[0].decode().splitlines() if line.startswith((name + " ", name + "{"))]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in lines}


def calls(method: str, status: str) -> str:
    return f'{{method="tailrace.v1.Inference/{method}",status="{status}"}}'


async def read(front: Front, *metadata: tuple[str, str]) -> None:
    async for _ in front.generate(TEXT, metadata=metadata):
        pass


async def test_calls_are_counted_by_method_and_status(metrics: Metrics) -> None:
    service = ScriptedService()
    config = GrpcConfig(api_keys=ApiKeys({"sk-0123456789abcdef": Client("shop")}))
    async with front_end(service, config, metrics=metrics) as front:
        await read(front, KEY)
        with pytest.raises(grpc.aio.AioRpcError):
            await read(front)
        service.script = (ValueError("a fault of ours"),)
        with pytest.raises(grpc.aio.AioRpcError):
            await read(front, KEY)
        await front.ask("/tailrace.v1.Inference/GetModel", pb.GetModelRequest(), pb.GetModelResponse, [KEY])
    assert shown(metrics, CALLS) == {
        calls("Generate", "OK"): 1,
        calls("Generate", "UNAUTHENTICATED"): 1,
        calls("Generate", "INTERNAL"): 1,
        calls("GetModel", "OK"): 1,
    }
    assert shown(metrics, "tailrace_grpc_calls_in_flight") == {"": 0}


@pytest.mark.parametrize("timeout", [None, 0.2])
async def test_a_call_whose_client_goes_is_under_way_until_then(metrics: Metrics, timeout: float | None) -> None:
    service = ScriptedService(script=(token("Hi"), asyncio.Event()))
    async with front_end(service, metrics=metrics) as front:
        call = front.generate(TEXT, timeout=timeout)
        await call.read()
        assert shown(metrics, "tailrace_grpc_calls_in_flight") == {"": 1}
        if timeout is None:
            call.cancel()
        while not shown(metrics, CALLS):
            await asyncio.sleep(0.01)
    assert shown(metrics, CALLS) == {calls("Generate", "CANCELLED"): 1}
    assert shown(metrics, "tailrace_grpc_calls_in_flight") == {"": 0}


async def test_who_has_used_up_its_limits_is_counted_in_its_class(metrics: Metrics) -> None:
    client = Client("shop", "bronze", "bronze", ClientLimits(requests_per_minute=1))
    config = GrpcConfig(api_keys=ApiKeys({"sk-0123456789abcdef": client}))
    async with front_end(ScriptedService(), config, metrics=metrics) as front:
        await read(front, KEY)
        with pytest.raises(grpc.aio.AioRpcError):
            await read(front, KEY)
    refused = shown(metrics, "tailrace_requests_refused_total")
    assert refused['{class="bronze",reason="rate_limited"}'] == sum(refused.values()) == 1
    assert shown(metrics, "tailrace_first_text_seconds_count")['{class="bronze",front_end="grpc"}'] == 1
