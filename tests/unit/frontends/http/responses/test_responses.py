"""Responses as clients see them: shapes, the order of events, ends and failures."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import openai
import pytest
from starlette.types import ASGIApp

from tailrace.errors import EngineError, Overloaded, RefusalReason, UnavailableError
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig, Patience
from tailrace.service.api import ChatPrompt, TextLogprob
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.asgi import named_events, post, talk
from tests.support.official import openai_client
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token

HELLO: dict[str, object] = {"input": "Hi"}
STREAM = HELLO | {"stream": True}
TEXT = {"type": "output_text", "text": "Hello world", "annotations": [], "logprobs": []}
USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {
        "cached_tokens": 4,
        "cached_tokens_details": {"engine": 1, "host": 3},
        "cache_miss_reason": "evicted",
        "cache_write_tokens": 0,
    },
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 9,
}
LOGPROB = TextLogprob(5, "é", "é".encode(), -0.5, (TextLogprob(6, "e", b"e", -0.9),))
SHOWN_LOGPROB = {
    "token": "é",
    "logprob": -0.5,
    "bytes": [195, 169],
    "top_logprobs": [{"token": "e", "logprob": -0.9, "bytes": [101]}],
}


async def events_of(app: ASGIApp, **fields: object) -> list[dict[str, Any]]:
    answer = await post(app, "/v1/responses", STREAM | fields)
    assert answer.status == 200
    return [event for _, event in named_events(answer.body)]


async def ask(app: ASGIApp, **fields: Any) -> openai.types.responses.Response:
    answer = await openai_client(app).responses.create(model="tiny", input="Hi", **fields)
    assert isinstance(answer, openai.types.responses.Response)
    return answer


async def test_a_whole_response_has_the_shape_of_the_api(app: ASGIApp) -> None:
    answer = (await post(app, "/v1/responses", HELLO)).json()
    assert answer.pop("id").startswith("resp_")
    assert answer.pop("created_at") > 1_700_000_000
    (item,) = answer.pop("output")
    assert item.pop("id").startswith("msg_")
    assert item == {"type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}
    assert answer.pop("usage") == USAGE
    assert answer == {
        "object": "response",
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "model": "tiny",
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": None,
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }


async def test_an_answer_tells_again_what_was_asked_for(app: ASGIApp) -> None:
    asked = {
        "instructions": "Be brief.",
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "top_p": 0.9,
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "user": "u",
        "top_logprobs": 2,
        "max_tool_calls": 3,
    }
    whole = (await post(app, "/v1/responses", HELLO | asked)).json()
    first, *_ = await events_of(app, **asked)
    for answer in (whole, first["response"]):
        assert {name: answer[name] for name in asked} == asked
    assert (await ask(app, service_tier="flex")).service_tier == "flex"


async def test_events_have_the_order_of_the_api(app: ASGIApp) -> None:
    events = await events_of(app)
    assert [event.pop("sequence_number") for event in events] == list(range(10))
    created, in_progress, added, part, *deltas, text_done, part_done, item_done, completed = events
    assert [event["type"] for event in (created, in_progress)] == ["response.created", "response.in_progress"]
    begun = created["response"]
    assert begun == in_progress["response"]
    assert (begun["status"], begun["output"], begun["usage"]) == ("in_progress", [], None)
    item = added.pop("item")
    assert added == {"type": "response.output_item.added", "output_index": 0}
    place = {"item_id": item.pop("id"), "output_index": 0, "content_index": 0}
    assert item == {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
    assert part == {"type": "response.content_part.added", **place, "part": TEXT | {"text": ""}}
    assert deltas == [
        {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []} for text in ("Hello", " world")
    ]
    assert text_done == {"type": "response.output_text.done", **place, "text": "Hello world", "logprobs": []}
    assert part_done == {"type": "response.content_part.done", **place, "part": TEXT}
    whole_item = {"id": place["item_id"], "type": "message", "role": "assistant", "status": "completed"}
    assert item_done == {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": whole_item | {"content": [TEXT]},
    }
    whole = begun | {"status": "completed", "output": [whole_item | {"content": [TEXT]}], "usage": USAGE}
    assert completed == {"type": "response.completed", "response": whole}


async def test_the_official_client_gathers_a_stream_to_the_whole_response(app: ASGIApp) -> None:
    async with openai_client(app).responses.stream(model="tiny", input="Hi") as stream:
        gathered = await stream.get_final_response()
    whole = await ask(app)
    assert gathered.output_text == whole.output_text == "Hello world"
    assert gathered.usage == whole.usage


LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
MIXED: list[Step] = [
    *(thought("Hm"), thought("m."), token("I "), token("look."), call(0, name="look"), call(0, '{"a"')),
    *(call(0, ": 1}"), call(1, name="look"), token("There."), finish(reason=FinishReason.TOOL_CALLS)),
]
MIXED_OUTPUT = [
    {
        "type": "reasoning",
        "status": "completed",
        "content": [{"type": "reasoning_text", "text": "Hmm."}],
        "summary": [],
        "encrypted_content": None,
    },
    {"type": "message", "role": "assistant", "status": "completed", "content": [TEXT | {"text": "I look."}]},
    {"type": "function_call", "status": "completed", "call_id": "call_0_0", "name": "look", "arguments": '{"a": 1}'},
    {"type": "function_call", "status": "completed", "call_id": "call_0_1", "name": "look", "arguments": ""},
    {"type": "message", "role": "assistant", "status": "completed", "content": [TEXT | {"text": "There."}]},
]


async def test_reasoning_text_and_calls_are_items_in_their_order(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    whole = (await post(app, "/v1/responses", HELLO | {"tools": [LOOK]})).json()
    ids = [item.pop("id") for item in whole["output"]]
    assert whole["output"] == MIXED_OUTPUT
    assert whole["status"] == "completed"
    assert whole["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}
    assert len(set(ids)) == len(ids)
    assert [each.partition("_")[0] for each in ids] == ["rs", "msg", "fc", "fc", "msg"]


async def test_items_grow_one_after_another(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    events = await events_of(app, tools=[LOOK])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("created", "in_progress"),
        *("output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta"),
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    places = [event["output_index"] for event in events if "output_index" in event]
    assert places == [0] * 7 + [1] * 7 + [2] * 5 + [3] * 3 + [4] * 6
    output = events[-1]["response"]["output"]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == output
    assert {event["item_id"] for event in events if "item_id" in event} == {item["id"] for item in output}
    arguments = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert [event["arguments"] for event in arguments] == ['{"a": 1}', ""]


async def test_the_official_client_gathers_items_of_every_kind(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    tools: Any = [LOOK]
    async with openai_client(app).responses.stream(model="tiny", input="Hi", tools=tools) as stream:
        deltas = [event.delta async for event in stream if event.type == "response.function_call_arguments.delta"]
        gathered = await stream.get_final_response()
    whole = await ask(app, tools=tools)
    assert deltas == ['{"a"', ": 1}"]
    assert [item.type for item in gathered.output] == [item.type for item in whole.output]
    assert gathered.output_text == whole.output_text == "I look.There."
    assert [item.name for item in whole.output if item.type == "function_call"] == ["look", "look"]


async def test_a_call_that_was_cut_is_incomplete_and_what_came_before_it_is_not(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.script = [token("a"), call(0, '{"a', name="look"), finish(reason=FinishReason.LENGTH)]
    whole = await ask(app, tools=[LOOK])
    *_, last = await events_of(app, tools=[LOOK])
    for output in ([item.to_dict() for item in whole.output], last["response"]["output"]):
        assert [item["status"] for item in output] == ["completed", "incomplete"]
        assert output[1]["arguments"] == '{"a'


async def test_a_failure_keeps_the_items_that_were_there(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [thought("a"), call(0, '{"a', name="look"), EngineError("gone")]
    last = (await events_of(app, tools=[LOOK]))[-1]["response"]
    assert [(item["type"], item["status"]) for item in last["output"]] == [
        ("reasoning", "completed"),
        ("function_call", "incomplete"),
    ]


async def test_an_answer_tells_again_what_was_asked_of_it(app: ASGIApp) -> None:
    text_format = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    asked = {"tools": [LOOK], "tool_choice": {"type": "function", "name": "look"}, "text": {"format": text_format}}
    asked_to_think = asked | {"reasoning": {"effort": "high", "summary": "auto"}}
    answer = (await post(app, "/v1/responses", HELLO | asked_to_think)).json()
    assert (answer["tools"], answer["tool_choice"]) == (asked["tools"], asked["tool_choice"])
    assert answer["text"]["format"] == text_format
    assert answer["reasoning"] == {"effort": "high", "summary": None}


async def test_items_of_an_answer_go_back_in_as_they_came(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    client, tools = openai_client(app), [LOOK]
    answer = await client.responses.create(model="tiny", input="Hi", tools=tools)  # type: ignore[arg-type]  # dicts
    calls = [item for item in answer.output if item.type == "function_call"]
    turns: list[Any] = [{"role": "user", "content": "Hi"}, *(item.to_dict() for item in answer.output)]
    turns += [{"type": "function_call_output", "call_id": each.call_id, "output": "sunny"} for each in calls]
    await client.responses.create(model="tiny", input=turns, tools=tools)  # type: ignore[arg-type]  # dicts
    prompt = service.generations[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert [message["role"] for message in prompt.messages] == ["user", "assistant", "tool", "tool"]
    assert prompt.messages[1]["reasoning_content"] == "Hmm."


async def test_an_answer_of_the_client_goes_back_in_as_it_came(app: ASGIApp, service: ScriptedService) -> None:
    client = openai_client(app)
    answer = await client.responses.create(model="tiny", input="Hi")
    turns: list[Any] = [{"role": "user", "content": text} for text in ("Hi", "And?")]
    turns[1:1] = [item.to_dict() for item in answer.output]
    await client.responses.create(model="tiny", input=turns)
    assert "Hello world" in str(service.generations[-1].prompt)


async def test_an_answer_that_was_cut_is_incomplete(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), finish(reason=FinishReason.LENGTH)]
    whole = await ask(app)
    assert whole.status == "incomplete"
    assert whole.incomplete_details is not None
    assert whole.incomplete_details.reason == "max_output_tokens"
    *_, item, last = await events_of(app)
    assert item["item"]["status"] == "incomplete"
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_log_probabilities_come_with_their_text_and_once_more_at_the_end(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.script = [token("é", logprobs=(LOGPROB,)), token("é", logprobs=(LOGPROB,)), finish()]
    events = {event["type"]: event for event in await events_of(app, top_logprobs=1)}
    assert events["response.output_text.delta"]["logprobs"] == [SHOWN_LOGPROB]
    assert events["response.output_text.done"]["logprobs"] == [SHOWN_LOGPROB] * 2
    whole = (await post(app, "/v1/responses", HELLO | {"top_logprobs": 1})).json()
    assert whole["output"][0]["content"][0]["logprobs"] == [SHOWN_LOGPROB] * 2


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (UnavailableError("gone"), "server_error"),
        (EngineError("secret"), "server_error"),
        (Overloaded("late", retry_after_s=1.0, reason=RefusalReason.QUEUE_TIMEOUT), "rate_limit_exceeded"),
        (finish(reason=FinishReason.ABORT), "server_error"),
    ],
)
async def test_a_failure_in_mid_stream_ends_the_response_as_failed(
    app: ASGIApp, service: ScriptedService, failure: Any, code: str
) -> None:
    service.script = [token("a"), failure]
    events = await events_of(app)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] == code
    assert "secret" not in str(last)
    (item,) = last["response"]["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "a")
    stream = await openai_client(app).responses.create(model="tiny", input="Hi", stream=True)
    assert [event.type async for event in stream][-1] == "response.failed"


async def test_a_failure_after_a_sign_of_life_is_a_failed_response_too(
    service: ScriptedService, metrics: Metrics, config: HttpConfig
) -> None:
    gate = asyncio.Event()
    service.script = [gate, UnavailableError("gone")]
    app = create_app(service, metrics, replace(config, patience=Patience(keep_alive_s=0.001)))
    conversation = talk(app, "/v1/responses", json.dumps(STREAM).encode())
    assert await conversation.read() == b": keep-alive\n\n"
    gate.set()
    body = (await conversation.end()).body.replace(b": keep-alive\n\n", b"")
    names = [name for name, _ in named_events(body)]
    assert names == ["response.created", "response.in_progress", "response.failed"]


async def test_what_is_wrong_with_a_request_has_the_words_of_the_api(app: ASGIApp, service: ScriptedService) -> None:
    with pytest.raises(openai.BadRequestError, match="store") as caught:
        await ask(app, store=True)
    assert (caught.value.param, caught.value.code) == ("store", "unsupported_parameter")
    service.start_step = Overloaded("not now", retry_after_s=2.0, reason=RefusalReason.QUEUE_FULL)
    with pytest.raises(openai.RateLimitError) as limited:
        await ask(app)
    assert limited.value.code == "queue_full"


async def test_a_stream_that_stops_short_is_no_response(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a")]
    assert (await events_of(app))[-1]["type"] == "response.failed"


async def test_a_client_that_goes_aborts_the_work(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), asyncio.Event()]
    conversation = talk(app, "/v1/responses", json.dumps(STREAM).encode())
    await conversation.read()
    conversation.leave()
    await conversation.end()
    assert service.stream.num_closed == 1
