import asyncio
import json
from typing import Any

import grpc
import pytest

from tailrace.errors import InvalidRequest, Overloaded, RefusalReason, UnavailableError
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.standing import Client, ClientLimits
from tailrace.service.api import (
    ChatPrompt,
    InfillPrompt,
    OutputFormat,
    OutputKind,
    Standing,
    TextLogprob,
    TextPrompt,
    TokenPrompt,
    Tool,
    ToolChoice,
    ToolMode,
)
from tailrace.types import FinishReason
from tests.support.broken_gate import BrokenGate
from tests.support.grpc_server import GENERATE, Front, front_end, raw_stream, rich_error
from tests.support.scripted_service import ScriptedService, call, finish, thought, token

TEXT = pb.GenerateRequest(text="Once")


async def answer(front: Front, request: pb.GenerateRequest = TEXT, **metadata: str) -> list[pb.GenerateResponse]:
    pairs = [(name.replace("_", "-"), value) for name, value in metadata.items()]
    return [message async for message in front.generate(request, metadata=pairs)]


async def failure(front: Front, request: pb.GenerateRequest = TEXT, **metadata: str) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(front, request, **metadata)
    return caught.value


async def test_text_comes_as_it_is_made_and_the_last_message_has_the_end_and_the_usage(front: Front) -> None:
    first, second, last = await answer(front)
    assert (first.text, second.text) == ("Hello", " world")
    assert not first.HasField("usage")
    assert not first.finish
    assert last.finish == pb.FINISH_STOP
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.cached_tokens) == (7, 2, 4)


async def test_a_token_takes_few_bytes(front: Front) -> None:
    """Its text, and two bytes that say so."""
    first, *_ = await answer(front)
    assert len(first.SerializeToString()) == len("Hello") + 2


async def test_every_field_arrives(front: Front, service: ScriptedService) -> None:
    request = pb.GenerateRequest(
        text="Once",
        max_tokens=9,
        sampling=pb.Sampling(
            temperature=0.7,
            top_p=0.9,
            top_k=40,
            min_p=0.1,
            seed=-3,
            presence_penalty=-0.5,
            frequency_penalty=0.5,
            repetition_penalty=1.1,
            logit_bias={5: -1.5},
            min_tokens=2,
            ignore_eos=True,
            stop_token_ids=[7, 8],
        ),
        stop=["END"],
        n=2,
        model="tiny-latest",
        service_class="gold",
        tenant="acme",
        cache_salt=b"salt",
        include_stop=True,
        keep_special_tokens=True,
        echo=True,
        no_special_tokens=True,
        logprobs=3,
    )
    service.script = (finish(0), finish(1))
    await answer(front, request)
    given, sampling = service.generation, service.generation.sampling
    assert given.prompt == TextPrompt("Once", add_special_tokens=False)
    assert (given.n, given.stop, given.include_stop, given.skip_special_tokens) == (2, ("END",), True, False)
    assert (given.echo, given.cache_salt, given.seed) == (True, "salt", -3)
    assert given.standing == Standing("gold", "acme")
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.top_k) == (9, 0.7, 0.9, 40)
    assert (sampling.min_p, sampling.presence_penalty, sampling.frequency_penalty) == (0.1, -0.5, 0.5)
    assert (sampling.repetition_penalty, sampling.logit_bias) == (1.1, ((5, -1.5),))
    assert (sampling.min_tokens, sampling.ignore_eos, sampling.stop_token_ids) == (2, True, (7, 8))
    assert sampling.num_logprobs == 3


async def test_what_is_not_said_is_as_everywhere(front: Front, service: ScriptedService) -> None:
    await answer(front)
    given, sampling = service.generation, service.generation.sampling
    assert (given.n, given.stop, given.seed, given.skip_special_tokens) == (1, (), None, True)
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.top_k) == (0, 1.0, 1.0, 0)
    assert (sampling.repetition_penalty, sampling.num_logprobs) == (1.0, None)


async def test_prompts_of_all_kinds(front: Front, service: ScriptedService) -> None:
    chat = pb.Chat(messages=[pb.Message(role="user", content="Hi", name="Ada")], template_args=b'{"x": 1}')
    await answer(front, pb.GenerateRequest(chat=chat))
    await answer(front, pb.GenerateRequest(token_ids=pb.TokenIds(ids=[1, 2, 3])))
    await answer(front, pb.GenerateRequest(infill=pb.Infill(prefix="a", suffix="b")))
    prompts = [each.prompt for each in service.generations]
    assert prompts[0] == ChatPrompt([{"role": "user", "content": "Hi", "name": "Ada"}], template_args={"x": 1})
    assert isinstance(prompts[1], TokenPrompt)
    assert list(prompts[1].token_ids) == [1, 2, 3]
    assert prompts[2] == InfillPrompt("a", "b")


SCHEMA = b'{"type": "object", "properties": {"city": {"type": "string"}}}'
LOOK = pb.Tool(name="look", description="Look.", parameters=SCHEMA, strict=True)
USER = pb.Message(role="user", content="Hi")


def chatting(**fields: Any) -> pb.GenerateRequest:
    return pb.GenerateRequest(chat=pb.Chat(messages=[USER], **fields))


def chatting_of(*messages: pb.Message) -> pb.GenerateRequest:
    return pb.GenerateRequest(chat=pb.Chat(messages=messages))


async def prompt_of(front: Front, service: ScriptedService, request: pb.GenerateRequest) -> ChatPrompt:
    await answer(front, request)
    prompt = service.generations[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def test_tools_and_the_choice_among_them_arrive(front: Front, service: ScriptedService) -> None:
    request = chatting(tools=[LOOK, pb.Tool(name="wait")], tool_choice=pb.ToolChoice(is_single=True))
    prompt = await prompt_of(front, service, request)
    assert prompt.tools == (Tool("look", "Look.", json.loads(SCHEMA), strict=True), Tool("wait"))
    assert prompt.tool_choice == ToolChoice(is_parallel=False)
    named = chatting(tools=[LOOK], tool_choice=pb.ToolChoice(mode=pb.TOOL_MODE_REQUIRED, name="look"))
    assert (await prompt_of(front, service, named)).tool_choice == ToolChoice(ToolMode.REQUIRED, "look")
    silent = chatting(tools=[LOOK], tool_choice=pb.ToolChoice(mode=pb.TOOL_MODE_NONE))
    assert (await prompt_of(front, service, silent)).tool_choice == ToolChoice(ToolMode.NONE)


@pytest.mark.parametrize(
    ("fields", "thinking", "effort"),
    [
        ({}, None, None),
        ({"thinking": True}, True, None),
        ({"thinking": False}, False, None),
        ({"effort": "none"}, False, None),
        ({"thinking": True, "effort": "high"}, True, "high"),
        ({"template_args": b'{"thinking": true}'}, True, None),
    ],
)
async def test_whether_and_how_much_to_think_arrives(
    front: Front, service: ScriptedService, fields: dict[str, Any], thinking: bool | None, effort: str | None
) -> None:
    prompt = await prompt_of(front, service, chatting(**fields))
    assert (prompt.thinking, prompt.effort) == (thinking, effort)


async def test_earlier_calls_and_their_results_arrive(front: Front, service: ScriptedService) -> None:
    call_ = pb.ToolCall(id="c1", name="look", arguments="{}")
    said = pb.Message(role="assistant", reasoning="Hm.", tool_calls=[call_])
    result = pb.Message(role="tool", content="sunny", tool_call_id="c1")
    request = pb.GenerateRequest(chat=pb.Chat(messages=[USER, said, result]))
    assert (await prompt_of(front, service, request)).messages[1:] == [
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (pb.OutputFormat(json_object=True), OutputFormat(OutputKind.JSON_OBJECT, param="output_format.json_object")),
        (
            pb.OutputFormat(json_schema=b'{"type":"string"}'),
            OutputFormat(OutputKind.JSON_SCHEMA, '{"type":"string"}', param="output_format.json_schema"),
        ),
        (pb.OutputFormat(regex="a+"), OutputFormat(OutputKind.REGEX, "a+", param="output_format.regex")),
        (
            pb.OutputFormat(choices=pb.Choices(texts=["a", "b"])),
            OutputFormat(OutputKind.CHOICE, choices=("a", "b"), param="output_format.choices.texts"),
        ),
        (
            pb.OutputFormat(grammar="start: X"),
            OutputFormat(OutputKind.GRAMMAR, "start: X", param="output_format.grammar"),
        ),
    ],
)
async def test_what_the_answer_looks_like_arrives(
    front: Front, service: ScriptedService, wish: pb.OutputFormat, expected: OutputFormat
) -> None:
    await answer(front, pb.GenerateRequest(text="x", output_format=wish))
    assert service.generation.output_format == expected


async def test_reasoning_and_calls_come_apart_from_the_text(front: Front, service: ScriptedService) -> None:
    service.script = (
        *(thought("Hm."), token("I look."), call(0, name="look"), call(0, "{}")),
        finish(reason=FinishReason.TOOL_CALLS),
    )
    messages = await answer(front, chatting(tools=[LOOK]))
    assert [(each.reasoning, each.text) for each in messages[:2]] == [("Hm.", ""), ("", "I look.")]
    assert [list(each.calls) for each in messages[2:4]] == [
        [pb.CallDelta(index=0, id="call_0_0", name="look")],
        [pb.CallDelta(index=0, arguments="{}")],
    ]
    assert messages[-1].finish == pb.FINISH_TOOL_CALLS
    assert messages[-1].usage.reasoning_tokens == 1


async def test_token_ids_and_log_probabilities_come_for_who_asks(front: Front, service: ScriptedService) -> None:
    top = TextLogprob(6, "he", b"he", -2.0)
    service.script = (token("é", logprobs=(TextLogprob(5, "\ufffd", b"\xc3", -0.5, (top,), 3),)), finish())
    request = pb.GenerateRequest(text="Once", return_token_ids=True)
    first, _ = await answer(front, request)
    assert list(first.token_ids) == [1]
    (logprob,) = first.logprobs
    assert (logprob.token_id, logprob.logprob, logprob.token, logprob.offset) == (5, -0.5, b"\xc3", 3)
    assert [(each.token_id, each.token) for each in logprob.top] == [(6, b"he")]
    assert not (await answer(front))[0].token_ids


async def test_choices_come_as_they_are_made_and_usage_with_the_last_end(
    front: Front, service: ScriptedService
) -> None:
    service.script = (token("a", 1), token("b", 0), finish(1, FinishReason.LENGTH), token("c", 0), finish(0))
    messages = await answer(front, pb.GenerateRequest(text="Once", n=2))
    assert [(each.index, each.text, each.finish) for each in messages] == [
        (1, "a", 0),
        (0, "b", 0),
        (1, "", pb.FINISH_LENGTH),
        (0, "c", 0),
        (0, "", pb.FINISH_STOP),
    ]
    assert [each.HasField("usage") for each in messages] == [False, False, False, False, True]


@pytest.mark.parametrize("stop", ["END", 42])
async def test_the_end_says_what_stopped_it(front: Front, service: ScriptedService, stop: str | int) -> None:
    service.script = (finish(stop_reason=stop),)
    (last,) = await answer(front)
    assert (last.stop_text or last.stop_token_id) == stop


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.GenerateRequest(), "prompt"),
        (pb.GenerateRequest(text="x", model="other"), "model"),
        (pb.GenerateRequest(text="x", service_class="platinum"), "service_class"),
        (pb.GenerateRequest(text="x", cache_salt=b"\xff"), "cache_salt"),
        (pb.GenerateRequest(text="x", cache_salt=b"x" * 513), "cache_salt"),
        (pb.GenerateRequest(chat=pb.Chat()), "chat.messages"),
        (pb.GenerateRequest(chat=pb.Chat(messages=[pb.Message(role="king")])), "chat.messages[0].role"),
        (
            pb.GenerateRequest(chat=pb.Chat(messages=[pb.Message(role="user")], template_args=b"[1]")),
            "chat.template_args",
        ),
        (chatting(tools=[pb.Tool(name="a b")]), "chat.tools[0].name"),
        (chatting(tools=[pb.Tool(name="f", parameters=b"[]")]), "chat.tools[0].parameters"),
        (chatting(tool_choice=pb.ToolChoice(mode=pb.TOOL_MODE_REQUIRED)), "chat.tool_choice"),
        (chatting(tools=[LOOK], tool_choice=pb.ToolChoice(name="look")), "chat.tool_choice.name"),
        (chatting(tools=[LOOK], tool_choice=pb.ToolChoice.FromString(b"\x08\x09")), "chat.tool_choice.mode"),
        (chatting(effort="huge"), "chat.effort"),
        (chatting(thinking=False, template_args=b'{"thinking": true}'), "chat.template_args.thinking"),
        (chatting_of(pb.Message(role="tool", content="x")), "chat.messages[0].tool_call_id"),
        (chatting_of(pb.Message(role="tool", content="x", tool_call_id="c")), "chat.messages[0].tool_call_id"),
        (pb.GenerateRequest(text="x", output_format=pb.OutputFormat()), "output_format"),
        (pb.GenerateRequest(text="x", output_format=pb.OutputFormat(json_schema=b"{")), "output_format.json_schema"),
        (pb.GenerateRequest(text="x", output_format=pb.OutputFormat(regex="")), "output_format.regex"),
        (pb.GenerateRequest(text="x", echo=True, output_format=pb.OutputFormat(regex="a")), "echo"),
        (
            pb.GenerateRequest(
                text="x", sampling=pb.Sampling(min_tokens=1), output_format=pb.OutputFormat(json_object=True)
            ),
            "sampling.min_tokens",
        ),
    ],
)
async def test_bad_fields_are_refused_by_name(
    front: Front, service: ScriptedService, request_: pb.GenerateRequest, field: str
) -> None:
    error = rich_error(await failure(front, request_))
    expected = grpc.StatusCode.NOT_FOUND if field == "model" else grpc.StatusCode.INVALID_ARGUMENT
    assert (error.code, error.field) == (expected, field)
    assert service.generations == []


async def test_what_the_service_refuses_has_the_name_it_has_here(front: Front, service: ScriptedService) -> None:
    service.start_step = InvalidRequest("temperature is 3.0; it must be a number from 0 to 2", param="temperature")
    error = rich_error(await failure(front))
    assert (error.code, error.field) == (grpc.StatusCode.INVALID_ARGUMENT, "sampling.temperature")
    assert error.reason == "INVALID_VALUE"


async def test_fields_that_nobody_knows_here_are_refused_by_number(front: Front) -> None:
    body = TEXT.SerializeToString() + bytes((0xFA, 0x07, 0x01, 0x78))  # field 127, a text of one letter
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw_stream(front, GENERATE, body).read()
    error = rich_error(caught.value)
    assert (error.code, error.field, error.reason) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "127",
        "UNKNOWN_PARAMETER",
    )


@pytest.mark.parametrize("body", [b"\xff" * 40, b"\x0a\xff", b"\x0a\x02\xff\xff", b"\x12\x06\x0a\x04\x0a\x7f\x61\x61"])
async def test_garbage_is_refused(front: Front, service: ScriptedService, body: bytes) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw_stream(front, GENERATE, body).read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert service.generations == []
    assert (await answer(front))[0].text == "Hello"  # and the connection lives on


async def test_overload_says_when_to_come_back(front: Front, service: ScriptedService) -> None:
    service.start_step = Overloaded("the queue is full", retry_after_s=2.5, reason=RefusalReason.TARGET_UNREACHABLE)
    error = rich_error(await failure(front))
    assert (error.code, error.retry_s) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 2.5)
    assert error.reason == "TARGET_UNREACHABLE"
    assert error.headers["grpc-retry-pushback-ms"] == "2500"
    assert error.headers["x-llm-d-request-dropped-reason"] == "target_unreachable"


async def test_a_server_that_is_not_there_yet_says_when_to_come_back(front: Front, service: ScriptedService) -> None:
    service.start_step = UnavailableError("the model is loading", retry_after_s=1.0)
    error = rich_error(await failure(front))
    assert (error.code, error.retry_s, error.reason) == (grpc.StatusCode.UNAVAILABLE, 1.0, "UNAVAILABLE")


async def test_our_own_faults_tell_the_request_id_and_no_more(
    front: Front, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    service.script = (token("Hel"), finish(reason=FinishReason.ERROR, error="/secret/path is broken"))
    error = rich_error(await failure(front, x_request_id="my-id"))
    assert error.code is grpc.StatusCode.INTERNAL
    assert "my-id" in error.message
    assert "secret" not in str(error)
    assert "my-id" in caplog.text


async def test_an_answer_that_the_server_cuts_off_is_to_be_asked_for_again(
    front: Front, service: ScriptedService
) -> None:
    service.script = (token("Hel"), finish(reason=FinishReason.ABORT))
    assert (await failure(front)).code() is grpc.StatusCode.UNAVAILABLE


async def test_cancelling_ends_the_work_at_once(front: Front, service: ScriptedService) -> None:
    service.script = (token("Hello"), asyncio.Event())
    call = front.generate(TEXT)
    first = await call.read()
    assert isinstance(first, pb.GenerateResponse)
    call.cancel()
    await asyncio.to_thread(service.closings.acquire, timeout=10)
    assert service.stream.num_closed == 1


async def test_cancelling_before_the_start_ends_it_too(front: Front, service: ScriptedService) -> None:
    service.start_step = asyncio.Event()
    call = front.generate(TEXT)
    reading = asyncio.ensure_future(call.read())
    while not service.generations:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    while not service.was_cancelled_at_start:
        await asyncio.sleep(0)


async def test_a_deadline_that_passes_ends_the_work_at_once(front: Front, service: ScriptedService) -> None:
    service.script = (token("Hello"), asyncio.Event())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in front.generate(TEXT, timeout=0.3)]
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await asyncio.to_thread(service.closings.acquire, timeout=10)


async def test_nobody_waits_in_the_queue_for_longer_than_the_deadline(front: Front, service: ScriptedService) -> None:
    [message async for message in front.generate(TEXT, timeout=30.0)]
    ttl_s = service.generation.standing.queue_ttl_s
    assert ttl_s is not None
    assert 29 < ttl_s < 31  # on the wire, a deadline is rounded up
    await answer(front)
    assert service.generations[1].standing.queue_ttl_s is None


async def test_metadata_says_the_class_as_headers_do(front: Front, service: ScriptedService) -> None:
    await answer(front, x_llm_d_inference_objective="gold", x_llm_d_slo_ttft_ms="2500", x_request_timeout_ms="5000")
    assert service.generation.standing == Standing("gold", ttft_s=2.5, queue_ttl_s=5.0)
    error = rich_error(await failure(front, x_llm_d_slo_ttft_ms="soon"))
    assert error.field == "x-llm-d-slo-ttft-ms"


async def test_the_request_id_of_the_client_reaches_the_engine(front: Front, service: ScriptedService) -> None:
    await answer(front, x_request_id="my-id")
    await answer(front, x_request_id="my-id")
    first, second = (each.request_id for each in service.generations)
    assert first.startswith("my-id-")
    assert first != second


async def test_keys_are_asked_for_before_anything_is_read() -> None:
    keys = ApiKeys({"sk-0123456789abcdef": Client("shop", "bronze", "bronze")})
    service = ScriptedService()
    async with front_end(service, GrpcConfig(api_keys=keys)) as front:
        for authorization in ("", "Bearer wrong", "Basic sk-0123456789abcdef"):
            error = rich_error(await failure(front, pb.GenerateRequest(), authorization=authorization))
            assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "INVALID_API_KEY")
        await answer(front, authorization="Bearer sk-0123456789abcdef")
    assert service.generation.standing == Standing("bronze", "shop")


async def test_limits_of_a_key_hold_here_too() -> None:
    limits = ClientLimits(requests_per_minute=2, tokens_per_minute=100)
    keys = ApiKeys({"sk-0123456789abcdef": Client("shop", limits=limits)})
    service = ScriptedService()
    async with front_end(service, GrpcConfig(api_keys=keys)) as front:
        for _ in range(2):
            await answer(front, authorization="Bearer sk-0123456789abcdef")
        error = rich_error(await failure(front, authorization="Bearer sk-0123456789abcdef"))
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED")
    assert error.retry_s is not None
    assert len(service.generations) == 2


async def test_what_cannot_be_charged_is_not_computed_on() -> None:
    service = ScriptedService()
    async with front_end(service, GrpcConfig(gate=BrokenGate())) as front:
        assert (await failure(front)).code() is grpc.StatusCode.INTERNAL
    assert service.stream.num_closed == 1


async def test_tokens_and_back(front: Front) -> None:
    path = "/tailrace.v1.Inference/"
    ids = await front.ask(path + "Tokenize", pb.TokenizeRequest(text="Hi"), pb.TokenizeResponse)
    assert list(ids.ids) == [72, 105]
    text = await front.ask(path + "Detokenize", pb.DetokenizeRequest(ids=[72, 105]), pb.DetokenizeResponse)
    assert text.text == "Hi"


async def test_the_model_and_its_bounds(front: Front) -> None:
    model = await front.ask("/tailrace.v1.Inference/GetModel", pb.GetModelRequest(), pb.GetModelResponse)
    assert model == pb.GetModelResponse(
        name="tiny", aliases=["tiny-latest"], max_model_tokens=512, vocab_size=1000, is_ready=True, version="1.2.3"
    )
