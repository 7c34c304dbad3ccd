import asyncio
from typing import TypeAlias, TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from smg_grpc_proto.generated import common_pb2
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from tailrace.errors import InvalidRequest
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.grpc.call import Calls
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.vllm.engine import VLLM_ENGINE, VllmEngine
from tailrace.frontends.grpc.vllm.fields import ACCEPTED, OBEYED, REFUSED
from tailrace.frontends.standing import Client
from tailrace.service.api import ChoiceDelta, OutputKind, TextLogprob, TextPrompt, TokenPrompt
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason, ModelTarget
from tests.support.grpc_server import Front, front_end, raw_stream, rich_error
from tests.support.scripted_service import ScriptedService

Answer = TypeVar("Answer", bound=Message)
Generating: TypeAlias = "grpc.aio.UnaryStreamCall[pb.GenerateRequest, pb.GenerateResponse]"

PATH = "/vllm.grpc.engine.VllmEngine/"
TOKENS = pb.TokenizedInput(input_ids=[5, 6, 7])


def delta(*token_ids: int, index: int = 0, finish_reason: FinishReason | None = None) -> ChoiceDelta:
    return ChoiceDelta(index, "", token_ids, finish_reason=finish_reason)


SCRIPT = (delta(10), delta(11, 12), delta(2, finish_reason=FinishReason.STOP))


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService(script=SCRIPT)


def generating(front: Front, request: pb.GenerateRequest, key: str = "") -> Generating:
    method: grpc.aio.UnaryStreamMultiCallable[pb.GenerateRequest, pb.GenerateResponse] = front.channel.unary_stream(
        PATH + "Generate", pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString
    )
    return method(request, metadata=(("authorization", f"Bearer {key}"),))


async def answer(front: Front, request: pb.GenerateRequest) -> list[pb.GenerateResponse]:
    return [message async for message in generating(front, request)]


async def failure(front: Front, request: pb.GenerateRequest) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(front, request)
    return caught.value


async def test_tokens_come_in_chunks_and_the_end_has_the_totals(front: Front) -> None:
    *chunks, last = await answer(front, pb.GenerateRequest(request_id="r", tokenized=TOKENS, stream=True))
    assert [list(each.chunk.token_ids) for each in chunks] == [[10], [11, 12], [2]]
    assert [each.chunk.completion_tokens for each in chunks] == [1, 2, 1]
    assert {(each.chunk.prompt_tokens, each.chunk.cached_tokens) for each in chunks} == {(7, 4)}
    assert last.complete == pb.GenerateComplete(
        finish_reason="stop", prompt_tokens=7, completion_tokens=4, cached_tokens=4
    )


async def test_a_stream_equals_the_answer_in_one_piece(front: Front) -> None:
    streamed = await answer(front, pb.GenerateRequest(request_id="r", tokenized=TOKENS, stream=True))
    (whole,) = await answer(front, pb.GenerateRequest(request_id="r", tokenized=TOKENS))
    assert list(whole.complete.output_ids) == [each for message in streamed for each in message.chunk.token_ids]
    assert whole.complete.completion_tokens == streamed[-1].complete.completion_tokens == 4


async def test_choices_are_told_apart(front: Front, service: ScriptedService) -> None:
    length = FinishReason.LENGTH
    service.script = (
        delta(10, index=1),
        delta(20),
        delta(11, index=1, finish_reason=length),
        delta(finish_reason=length),
    )
    request = pb.GenerateRequest(tokenized=TOKENS, sampling_params=pb.SamplingParams(n=2))
    messages = await answer(front, request)
    assert {each.complete.index: list(each.complete.output_ids) for each in messages} == {0: [20], 1: [10, 11]}


async def test_log_probabilities_come_with_their_tokens(front: Front, service: ScriptedService) -> None:
    logprob = TextLogprob(10, "", b"", -0.5, (TextLogprob(11, "", b"", -1.5),))
    service.script = (ChoiceDelta(0, "", (10,), (logprob,)), delta(finish_reason=FinishReason.STOP))
    for stream in (True, False):
        request = pb.GenerateRequest(tokenized=TOKENS, sampling_params=pb.SamplingParams(logprobs=1), stream=stream)
        first = (await answer(front, request))[0]
        given = first.chunk.output_logprobs if stream else first.complete.output_logprobs
        assert (list(given.token_ids), list(given.token_logprobs)) == ([10], [-0.5])
        assert [(list(each.token_ids), list(each.values)) for each in given.top_logprobs] == [([11], [-1.5])]


async def test_every_field_arrives(front: Front, service: ScriptedService) -> None:
    params = pb.SamplingParams(
        temperature=0.7,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        frequency_penalty=0.3,
        presence_penalty=-0.3,
        repetition_penalty=1.1,
        max_tokens=9,
        min_tokens=2,
        stop=["END"],
        stop_token_ids=[7],
        skip_special_tokens=True,
        ignore_eos=True,
        n=1,
        logprobs=3,
        seed=-4,
        logit_bias={5: -1.1},
    )
    await answer(front, pb.GenerateRequest(request_id="mine", text="Once", sampling_params=params))
    given, sampling = service.generation, service.generation.sampling
    assert given.prompt == TextPrompt("Once")
    assert given.request_id.startswith("mine-")
    assert (given.n, given.stop, given.seed, given.skip_special_tokens) == (1, ("END",), -4, True)
    assert not given.is_text_wanted
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.7, 0.9, 40, 0.1)
    assert (sampling.frequency_penalty, sampling.presence_penalty) == (0.3, -0.3)
    assert (sampling.repetition_penalty, sampling.logit_bias) == (1.1, ((5, -1.1),))
    assert (sampling.max_tokens, sampling.min_tokens, sampling.stop_token_ids) == (9, 2, (7,))
    assert (sampling.ignore_eos, sampling.num_logprobs) == (True, 3)


async def test_what_is_not_said_is_as_in_vllm(front: Front, service: ScriptedService) -> None:
    await answer(front, pb.GenerateRequest(tokenized=TOKENS, sampling_params=pb.SamplingParams(temperature=0)))
    sampling = service.generation.sampling
    assert isinstance(service.generation.prompt, TokenPrompt)
    assert list(service.generation.prompt.token_ids) == [5, 6, 7]
    assert (sampling.temperature, sampling.top_p, sampling.repetition_penalty) == (0.0, 1.0, 1.0)
    assert (sampling.max_tokens, sampling.num_logprobs, service.generation.seed) == (0, None, None)


def test_each_field_of_the_protocol_is_in_one_table() -> None:
    tables = (OBEYED, frozenset(ACCEPTED), frozenset(REFUSED))
    assert sum(map(len, tables)) == len(frozenset.union(*tables))
    known = {*pb.GenerateRequest.DESCRIPTOR.fields_by_name, *pb.SamplingParams.DESCRIPTOR.fields_by_name}
    assert frozenset.union(*tables) <= known


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.GenerateRequest(tokenized=TOKENS, data_parallel_rank=1), "data_parallel_rank"),
        (pb.GenerateRequest(tokenized=TOKENS, kv_transfer_params_json='{"x": 1}'), "kv_transfer_params_json"),
        (pb.GenerateRequest(tokenized=TOKENS, mm_inputs=pb.MultimodalInputs()), "mm_inputs"),
        *(
            (pb.GenerateRequest(tokenized=TOKENS, sampling_params=params), f"sampling_params.{name}")
            for params, name in (
                (pb.SamplingParams(structural_tag="{}"), "structural_tag"),
                (pb.SamplingParams(prompt_logprobs=0), "prompt_logprobs"),
                (pb.SamplingParams(truncate_prompt_tokens=-1), "truncate_prompt_tokens"),
            )
        ),
    ],
)
async def test_what_is_not_supported_is_refused_by_name(
    front: Front, service: ScriptedService, request_: pb.GenerateRequest, field: str
) -> None:
    error = rich_error(await failure(front, request_))
    assert (error.code, error.field) == (grpc.StatusCode.UNIMPLEMENTED, field)
    assert service.generations == []


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        (pb.SamplingParams(json_schema='{"type": "object"}'), OutputKind.JSON_SCHEMA, '{"type":"object"}'),
        (pb.SamplingParams(regex="a+"), OutputKind.REGEX, "a+"),
        (pb.SamplingParams(grammar="start: X"), OutputKind.GRAMMAR, "start: X"),
        (pb.SamplingParams(json_object=True), OutputKind.JSON_OBJECT, ""),
        (pb.SamplingParams(choice=pb.ChoiceConstraint(choices=["a"])), OutputKind.CHOICE, ""),
    ],
)
async def test_constraints_say_what_the_answer_looks_like(
    front: Front, service: ScriptedService, params: pb.SamplingParams, kind: OutputKind, text: str
) -> None:
    await answer(front, pb.GenerateRequest(tokenized=TOKENS, sampling_params=params))
    wanted = service.generation.output_format
    assert wanted is not None
    assert (wanted.kind, wanted.text) == (kind, text)
    assert wanted.choices == (("a",) if kind is OutputKind.CHOICE else ())
    assert wanted.param.startswith(f"sampling_params.{params.WhichOneof('constraint')}")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (pb.SamplingParams(json_schema="{"), "sampling_params.json_schema"),
        (pb.SamplingParams(json_schema="[]"), "sampling_params.json_schema"),
        (pb.SamplingParams(regex=""), "sampling_params.regex"),
        (pb.SamplingParams(choice=pb.ChoiceConstraint()), "sampling_params.choice.choices"),
        (pb.SamplingParams(json_object=True, ignore_eos=True), "sampling_params.ignore_eos"),
    ],
)
async def test_constraints_that_cannot_be_are_refused_by_name(
    front: Front, params: pb.SamplingParams, field: str
) -> None:
    error = rich_error(await failure(front, pb.GenerateRequest(tokenized=TOKENS, sampling_params=params)))
    assert (error.code, error.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_what_asks_for_nothing_passes(front: Front) -> None:
    params = pb.SamplingParams(json_object=False, spaces_between_special_tokens=True)
    request = pb.GenerateRequest(
        tokenized=TOKENS, sampling_params=params, data_parallel_rank=0, kv_transfer_params_json=""
    )
    assert await answer(front, request)


async def test_bad_values_are_refused_by_the_name_of_the_protocol(front: Front, service: ScriptedService) -> None:
    error = rich_error(await failure(front, pb.GenerateRequest()))
    assert (error.code, error.field) == (grpc.StatusCode.INVALID_ARGUMENT, "input")
    service.start_step = InvalidRequest("num_logprobs is -1; ...", param="num_logprobs")
    error = rich_error(await failure(front, pb.GenerateRequest(tokenized=TOKENS)))
    assert (error.code, error.field) == (grpc.StatusCode.INVALID_ARGUMENT, "sampling_params.logprobs")


@pytest.mark.parametrize(
    "name", ["Embed", "StartProfile", "StopProfile", "GetLoads", "GetTokenizer", "SubscribeKvEvents"]
)
async def test_methods_without_an_answer_say_why(front: Front, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw_stream(front, PATH + name, b"\x0a\x01x").read()
    error = rich_error(caught.value)
    assert (error.code, error.reason) == (grpc.StatusCode.UNIMPLEMENTED, "UNSUPPORTED_METHOD")
    assert name in error.message


def test_each_method_of_the_protocol_is_there() -> None:
    calls = Calls(GrpcConfig(), Metrics(model_name="tiny", version="0").grpc)
    handlers = set(VllmEngine(ScriptedService(), calls).handlers)
    assert handlers >= {
        "Generate",
        "Embed",
        "HealthCheck",
        "FlushCache",
        "StartProfile",
        "StopProfile",
        "Abort",
        "GetModelInfo",
        "GetServerInfo",
        "GetLoads",
        "GetTokenizer",
        "SubscribeKvEvents",
    }
    assert handlers <= set(VLLM_ENGINE.methods_by_name)


async def test_who_aborts_by_name_ends_the_answer_at_once(front: Front, service: ScriptedService) -> None:
    gate = asyncio.Event()  # the stream of a real service ends by itself when it is closed
    service.script = (delta(10), gate, delta(finish_reason=FinishReason.ABORT))
    call = generating(front, pb.GenerateRequest(request_id="mine", tokenized=TOKENS, stream=True))
    await call.read()
    await ask(front, "Abort", pb.AbortRequest(request_ids=["theirs", "mine"]), pb.AbortResponse)
    assert service.stream.num_closed == 1
    gate.set()
    last = await call.read()
    assert isinstance(last, pb.GenerateResponse)
    assert (last.complete.finish_reason, last.complete.completion_tokens) == ("abort", 1)
    assert await call.code() is grpc.StatusCode.OK


async def test_nobody_aborts_what_is_another_clients() -> None:
    keys = ApiKeys({"k" * 16: Client("one"), "l" * 16: Client("two")})
    service = ScriptedService(script=(delta(10), asyncio.Event()))
    async with front_end(service, GrpcConfig(api_keys=keys)) as front:
        call = generating(front, pb.GenerateRequest(request_id="r", tokenized=TOKENS, stream=True), "k" * 16)
        await call.read()
        await ask(front, "Abort", pb.AbortRequest(request_ids=["r"]), pb.AbortResponse, "l" * 16)
        assert service.stream.num_closed == 0
        call.cancel()


async def ask(front: Front, name: str, request: Message, kind: type[Answer], key: str = "") -> Answer:
    return await front.ask(PATH + name, request, kind, [("authorization", f"Bearer {key}")])


async def test_the_model_and_the_server_say_what_they_are(front: Front, service: ScriptedService) -> None:
    model = await ask(front, "GetModelInfo", pb.GetModelInfoRequest(), pb.GetModelInfoResponse)
    assert (model.served_model_name, model.max_context_length, model.vocab_size) == ("tiny", 512, 1000)
    assert model.is_generation
    service.script = (delta(10), asyncio.Event())
    call = generating(front, pb.GenerateRequest(tokenized=TOKENS, stream=True))
    await call.read()
    server = await ask(front, "GetServerInfo", pb.GetServerInfoRequest(), pb.GetServerInfoResponse)
    assert (server.active_requests, server.server_type) == (1, "tailrace-grpc")
    call.cancel()


async def test_health_is_the_truth_at_each_point(front: Front, service: ScriptedService) -> None:
    for is_ready in (True, False):
        service.is_ready = is_ready
        health = await ask(front, "HealthCheck", pb.HealthCheckRequest(), pb.HealthCheckResponse)
        assert health.healthy is is_ready


async def test_who_has_the_admin_key_may_empty_the_cache(service: ScriptedService) -> None:
    request, kind = common_pb2.FlushCacheRequest(), common_pb2.FlushCacheResponse
    async with front_end(service, GrpcConfig(admin_key="a" * 20)) as front:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(front, "FlushCache", request, kind, "wrong")
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert service.invalidated == []
        flushed = await ask(front, "FlushCache", request, kind, "a" * 20)
    assert flushed.success
    assert service.invalidated == [ModelTarget()]


async def test_nobody_empties_the_cache_of_a_server_without_an_admin_key(front: Front) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(front, "FlushCache", common_pb2.FlushCacheRequest(), common_pb2.FlushCacheResponse)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
