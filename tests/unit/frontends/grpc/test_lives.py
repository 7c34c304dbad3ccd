"""What is known of a call from its head to its end, however it ends."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio
from smg_grpc_proto.generated import vllm_engine_pb2 as vllm

from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.telemetry.lives import RequestLife
from tests.support.grpc_server import Front, front_end, raw_stream
from tests.support.local_stack import LocalStack

VLLM = "/vllm.grpc.engine.VllmEngine/Generate"


@pytest_asyncio.fixture
async def stack() -> AsyncIterator[LocalStack]:
    stack = LocalStack()
    yield stack
    stack.close()


@pytest_asyncio.fixture
async def front(stack: LocalStack) -> AsyncIterator[Front]:
    async with front_end(stack.service, metrics=stack.metrics) as front:
        yield front


def moments(life: RequestLife) -> list[float]:
    assert life.beginning is not None
    known = [life.accepted_s, life.parsed_s, life.tokenised_s, life.submitted_s, life.beginning.taken_s]
    known += [life.beginning.computed_s, life.received_s, life.text_s, life.written_s, life.ended_s]
    found = [moment for moment in known if moment is not None]
    assert len(found) == len(known)
    return found


async def until_ended(stack: LocalStack) -> None:
    while any(life.ended_s is None for life in stack.metrics.lives.lives()):
        await asyncio.sleep(0.001)


async def test_a_call_is_followed_to_its_end(front: Front, stack: LocalStack) -> None:
    call = front.generate(pb.GenerateRequest(text="hello", max_tokens=3))
    assert [message async for message in call]
    await until_ended(stack)
    life = stack.life
    assert moments(life) == sorted(moments(life))
    assert (life.endpoint, life.class_name, life.finish_reason, life.error) == ("grpc", "silver", "length", None)
    assert (life.num_prompt_tokens, life.num_output_tokens) == (1, 3)
    assert stack.values("first_token_part_seconds")["prefill"] > 0.0


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_calls_in_the_other_protocol_are_followed_too(front: Front, stack: LocalStack, is_streamed: bool) -> None:
    sampling = vllm.SamplingParams(max_tokens=3)
    request = vllm.GenerateRequest(request_id="x", text="hello", sampling_params=sampling, stream=is_streamed)
    assert [message async for message in raw_stream(front, VLLM, request.SerializeToString())]
    await until_ended(stack)
    life = stack.life
    assert life.request_id.startswith("x-")
    assert moments(life) == sorted(moments(life))
    assert (stack.values("first_token_part_seconds")["write"] > 0.0) == is_streamed


async def test_a_call_that_is_cancelled_was_aborted(front: Front, stack: LocalStack) -> None:
    stack.device.gate.clear()
    call = front.generate(pb.GenerateRequest(text="hello"))
    while not any(life.submitted_s for life in stack.metrics.lives.lives()):
        await asyncio.sleep(0.001)
    call.cancel()
    await until_ended(stack)
    assert (stack.life.finish_reason, stack.life.error, stack.life.beginning) == ("abort", "cancelled", None)


async def test_a_call_that_is_refused_says_why(front: Front, stack: LocalStack) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        assert [message async for message in front.generate(pb.GenerateRequest(text="x " * 400))]
    await until_ended(stack)
    assert (stack.life.finish_reason, stack.life.error) == ("error", "context_length_exceeded")
