"""The official client, unmodified, with tools, reasoning and formats of answers: what it sends is understood, and it
puts together what it gets."""

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from pydantic import BaseModel
from starlette.types import ASGIApp

from tailrace.service.api import ChatPrompt, OutputFormat, OutputKind, ToolChoice, ToolMode
from tailrace.types import FinishReason
from tests.support.official import openai_client
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token


class GetWeather(BaseModel):
    """Says how it is."""

    city: str
    days: int


class City(BaseModel):
    name: str
    population: int


TOOL = openai.pydantic_function_tool(GetWeather, name="get_weather")
ASKED: list[Any] = [{"role": "user", "content": "How is it in Rome and in Oslo?"}]
CALLING: tuple[Step, ...] = (
    thought("Two "),
    thought("cities."),
    call(0, name="get_weather"),
    call(0, '{"city": "Rome",'),
    call(0, ' "days": 2}'),
    call(1, '{"city": "Oslo", "days": 1}', name="get_weather"),
    finish(reason=FinishReason.TOOL_CALLS),
)
WEATHERS = [GetWeather(city="Rome", days=2), GetWeather(city="Oslo", days=1)]


def prompt_of(service: ScriptedService) -> ChatPrompt:
    prompt = service.generations[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def test_calls_arrive_parsed(app: ASGIApp, service: ScriptedService) -> None:
    service.script = CALLING
    answer = await openai_client(app).chat.completions.parse(
        model="tiny", messages=ASKED, tools=[TOOL], tool_choice="required", parallel_tool_calls=True
    )
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls is not None
    assert [each.function.parsed_arguments for each in choice.message.tool_calls] == WEATHERS
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 2
    prompt = prompt_of(service)
    assert [(tool.name, tool.description, tool.strict) for tool in prompt.tools] == [
        ("get_weather", "Says how it is.", True)
    ]
    assert prompt.tools[0].parameters["required"] == ["city", "days"]
    assert prompt.tool_choice == ToolChoice(ToolMode.REQUIRED)


async def test_streamed_calls_are_put_together(app: ASGIApp, service: ScriptedService) -> None:
    service.script = CALLING
    async with openai_client(app).chat.completions.stream(
        model="tiny", messages=ASKED, tools=[TOOL], reasoning_effort="low"
    ) as stream:
        events = [event.type async for event in stream]
        answer = await stream.get_final_completion()
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls is not None
    assert [each.id for each in choice.message.tool_calls] == ["call_0_0", "call_0_1"]
    assert [each.function.parsed_arguments for each in choice.message.tool_calls] == WEATHERS
    assert events.count("tool_calls.function.arguments.done") == 2
    assert events.count("tool_calls.function.arguments.delta") >= 3
    assert prompt_of(service).effort == "low"


async def test_reasoning_arrives_in_pieces(app: ASGIApp, service: ScriptedService) -> None:
    service.script = (*CALLING[:2], token("It rains."), finish())
    deltas = [
        chunk.choices[0].delta
        async for chunk in await openai_client(app).chat.completions.create(
            model="tiny", messages=ASKED, stream=True, extra_body={"thinking": {"type": "enabled"}}
        )
    ]
    for name in ("reasoning", "reasoning_content"):
        assert "".join(getattr(delta, name, None) or "" for delta in deltas) == "Two cities."
    assert "".join(delta.content or "" for delta in deltas) == "It rains."
    assert prompt_of(service).thinking is True


async def test_a_round_of_tools_goes_back_as_it_came(app: ASGIApp, service: ScriptedService) -> None:
    service.script = CALLING
    client = openai_client(app)
    first = await client.chat.completions.create(model="tiny", messages=ASKED, tools=[TOOL])
    message = first.choices[0].message
    assert message.tool_calls is not None
    results = [{"role": "tool", "tool_call_id": each.id, "content": "rain"} for each in message.tool_calls]
    again: list[Any] = [*ASKED, message.model_dump(exclude_none=True), *results]
    service.script = (token("It rains in both."), finish())
    await client.chat.completions.create(model="tiny", messages=again, tools=[TOOL])
    _, said, *told = prompt_of(service).messages
    assert said["reasoning_content"] == "Two cities."
    assert isinstance(message.tool_calls[0], ChatCompletionMessageFunctionToolCall)
    assert said["tool_calls"][0]["function"]["arguments"] == message.tool_calls[0].function.arguments
    assert [each["tool_call_id"] for each in told] == ["call_0_0", "call_0_1"]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_in_the_form_of_a_class_arrives_as_one(
    app: ASGIApp, service: ScriptedService, is_streamed: bool
) -> None:
    service.script = (token('{"name": "Oslo",'), token(' "population": 709037}'), finish())
    client = openai_client(app).chat.completions
    if is_streamed:
        async with client.stream(model="tiny", messages=ASKED, response_format=City) as stream:
            answer = await stream.get_final_completion()
    else:
        answer = await client.parse(model="tiny", messages=ASKED, response_format=City)
    assert answer.choices[0].message.parsed == City(name="Oslo", population=709037)
    wanted = service.generation.output_format
    assert isinstance(wanted, OutputFormat)
    assert (wanted.kind, wanted.param) == (OutputKind.JSON_SCHEMA, "response_format.json_schema.schema")
    assert list(json.loads(wanted.text)["properties"]) == ["name", "population"]


async def test_an_answer_that_was_cut_is_told_from_one_that_was_not(app: ASGIApp, service: ScriptedService) -> None:
    service.script = (token('{"name": "Os'), finish(reason=FinishReason.LENGTH))
    with pytest.raises(openai.LengthFinishReasonError):
        await openai_client(app).chat.completions.parse(model="tiny", messages=ASKED, response_format=City)


async def test_embeddings_are_refused(app: ASGIApp) -> None:
    with pytest.raises(openai.BadRequestError, match="has no embeddings"):
        await openai_client(app).embeddings.create(model="tiny", input="a")
