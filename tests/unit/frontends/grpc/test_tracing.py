"""The place of a call in a trace, which its metadata says."""

import json
import logging

import grpc
import pytest
from smg_grpc_proto.generated import vllm_engine_pb2 as vllm

from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.trace_context import Tracing
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.telemetry.log_lines import JsonLines
from tests.support.grpc_server import Front, front_end, raw_stream
from tests.support.scripted_service import ScriptedService

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-00"
VLLM = "/vllm.grpc.engine.VllmEngine/Generate"


async def told(front: Front, *metadata: tuple[str, str]) -> str:
    """The span that a call is told of before its first message; empty: of none."""
    call = front.generate(pb.GenerateRequest(text="Once"), metadata=metadata)
    headers = dict(await call.initial_metadata() or ())
    assert [message async for message in call]
    return str(headers.get("traceparent", ""))


async def test_a_call_is_answered_in_the_trace_of_who_makes_it(front: Front, service: ScriptedService) -> None:
    span = await told(front, ("traceparent", PARENT))
    assert span.startswith(f"00-{TRACE_ID}-")
    assert span.endswith("-00")
    assert span != PARENT
    assert service.generation.trace == span


async def test_nobody_is_traced_who_does_not_ask_for_it(front: Front, service: ScriptedService) -> None:
    assert await told(front) == ""
    assert await told(front, ("traceparent", "nonsense")) == ""
    assert {generation.trace for generation in service.generations} == {""}


@pytest.mark.parametrize("ratio", [0.0, 1.0])
async def test_a_server_that_records_traces_begins_them(service: ScriptedService, ratio: float) -> None:
    async with front_end(service, GrpcConfig(tracing=Tracing(TraceSampler(ratio)))) as front:
        span = await told(front)
        assert span.endswith(f"-0{ratio:.0f}")
        request = vllm.GenerateRequest(request_id="x", text="Once", stream=True)
        call = raw_stream(front, VLLM, request.SerializeToString())
        headers = dict(await call.initial_metadata() or ())
        assert [message async for message in call]
    assert [each.trace for each in service.generations] == [span, headers["traceparent"]]


async def test_the_log_names_the_call_and_its_trace(
    front: Front, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    service.start_step = RuntimeError("a fault of ours")
    caplog.handler.setFormatter(JsonLines(str))
    with caplog.at_level(logging.ERROR), pytest.raises(grpc.aio.AioRpcError):
        await told(front, ("traceparent", PARENT), ("x-request-id", "mine"))
    (line,) = map(json.loads, caplog.text.splitlines())
    assert (line["request_id"], line["trace_id"]) == ("mine", TRACE_ID)
