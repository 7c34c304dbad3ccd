"""Messages as clients see them: shapes, the order of events, errors in the API's own words, keys, counts."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import anthropic
import pytest
from starlette.types import ASGIApp

from tailrace.errors import EngineError, Overloaded, RefusalReason, UnavailableError
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig, Patience
from tailrace.frontends.standing import Client
from tailrace.service.api import ChatPrompt
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.asgi import ask as get
from tests.support.asgi import named_events, post, talk
from tests.support.official import anthropic_client
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token

HELLO: dict[str, object] = {"max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}]}
STREAM = HELLO | {"stream": True}
USAGE = {
    "input_tokens": 3,  # those of the prompt that were not in the cache
    "cache_read_input_tokens": 4,
    "cache_creation_input_tokens": 0,
    "output_tokens": 2,
    "output_tokens_details": {"thinking_tokens": 0},
}
KEY = "sk-shop-0123456789"


async def ask(app: ASGIApp, **fields: Any) -> anthropic.types.Message:
    options: dict[str, Any] = HELLO | {"model": "tiny"} | fields
    answer = await anthropic_client(app).messages.create(**options)
    assert isinstance(answer, anthropic.types.Message)
    return answer


async def refusal(app: ASGIApp, **fields: Any) -> anthropic.APIStatusError:
    with pytest.raises(anthropic.APIStatusError) as caught:
        await ask(app, **fields)
    return caught.value


async def test_a_whole_message_has_the_shape_of_the_api(app: ASGIApp) -> None:
    answer = (await post(app, "/v1/messages", HELLO)).json()
    assert answer.pop("id").startswith("msg_")
    assert answer == {
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [{"type": "text", "text": "Hello world"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


async def test_events_have_the_order_of_the_api(app: ASGIApp) -> None:
    answer = await post(app, "/v1/messages", STREAM)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event for _, event in named_events(answer.body)]
    start = events.pop(0)
    assert start["message"].pop("id").startswith("msg_")
    assert start["message"].pop("usage").keys() == USAGE.keys()
    assert start == {
        "type": "message_start",
        "message": {
            "type": "message",
            "role": "assistant",
            "model": "tiny",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        },
    }
    assert events == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " world"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
        {"type": "message_stop"},
    ]


async def test_the_first_event_has_the_usage_of_its_moment(app: ASGIApp, service: ScriptedService) -> None:
    gate = asyncio.Event()
    service.script = [token("a"), gate, token("b"), finish()]
    conversation = talk(app, "/v1/messages", json.dumps(STREAM).encode())
    first = named_events(await conversation.read())
    gate.set()
    await conversation.end()
    assert first[0][1]["message"]["usage"] == USAGE | {"output_tokens": 1}


async def test_the_official_client_gathers_a_stream_to_the_whole_message(app: ASGIApp) -> None:
    async with anthropic_client(app).messages.stream(
        model="tiny", max_tokens=16, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        gathered = await stream.get_final_message()
    whole = await ask(app)
    assert gathered.content[0].to_dict() == whole.content[0].to_dict()
    assert (gathered.stop_reason, gathered.usage) == (whole.stop_reason, whole.usage)


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (finish(), "end_turn", None),
        (finish(stop_reason="###"), "stop_sequence", "###"),
        (finish(stop_reason=7), "end_turn", None),  # by a token, which is no sequence
        (finish(reason=FinishReason.LENGTH), "model_context_window_exceeded", None),
    ],
)
async def test_a_message_says_why_it_stopped(
    app: ASGIApp, service: ScriptedService, end: Step, reason: str, sequence: str | None
) -> None:
    service.script = [token("a"), end]
    whole = await ask(app)
    assert (whole.stop_reason, whole.stop_sequence) == (reason, sequence)
    stop = named_events((await post(app, "/v1/messages", STREAM)).body)[-2][1]["delta"]
    assert stop == {"stop_reason": reason, "stop_sequence": sequence}


async def test_as_many_tokens_as_were_asked_for_are_no_end_of_the_context(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.script = [token("a"), token("b"), finish(reason=FinishReason.LENGTH)]
    assert (await ask(app, max_tokens=2)).stop_reason == "max_tokens"
    assert (await ask(app, max_tokens=3)).stop_reason == "model_context_window_exceeded"


async def test_an_answer_without_text_has_no_block(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token(""), finish()]
    assert (await ask(app)).content == []
    names = [name for name, _ in named_events((await post(app, "/v1/messages", STREAM)).body)]
    assert names == ["message_start", "message_delta", "message_stop"]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [({}, None), ({"service_tier": "standard_only"}, "standard"), ({"speed": "fast"}, "priority")],
)
async def test_usage_names_the_tier_as_the_api_does(app: ASGIApp, fields: dict[str, object], shown: str | None) -> None:
    assert (await ask(app, **fields)).usage.service_tier == shown


async def test_requests_have_ids_where_the_client_looks_for_them(app: ASGIApp) -> None:
    answer = await ask(app, extra_headers={"x-request-id": "mine"})
    assert answer._request_id == "mine"
    error = await refusal(app, model="claude", extra_headers={"x-request-id": "mine"})
    assert error.request_id == "mine"
    assert isinstance(error.body, dict)
    assert error.body["request_id"] == "mine"


def overloaded(reason: RefusalReason) -> Overloaded:
    return Overloaded("not now", retry_after_s=2.0, reason=reason)


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (overloaded(RefusalReason.QUEUE_FULL), 529, "overloaded_error"),
        (overloaded(RefusalReason.TARGET_UNREACHABLE), 529, "overloaded_error"),
        (overloaded(RefusalReason.QUEUE_TIMEOUT), 529, "overloaded_error"),
        (overloaded(RefusalReason.TENANT_LIMIT), 429, "rate_limit_error"),
        (overloaded(RefusalReason.RATE_LIMITED), 429, "rate_limit_error"),
        (UnavailableError("gone"), 503, "overloaded_error"),
        (EngineError("secret"), 500, "api_error"),
    ],
)
async def test_failures_have_the_words_of_the_api(
    app: ASGIApp, service: ScriptedService, failure: Exception, status: int, kind: str
) -> None:
    service.start_step = failure
    error = await refusal(app)
    assert (error.status_code, error.type) == (status, kind)
    assert isinstance(error.body, dict)
    assert error.body["type"] == "error"
    assert "secret" not in str(error)
    assert ("retry-after" in error.response.headers) == (status in (429, 529))


async def test_what_is_wrong_with_a_request_has_the_words_of_the_api(app: ASGIApp) -> None:
    error = await refusal(app, extra_body={"frobnicate": 1})
    assert (error.status_code, error.type) == (400, "invalid_request_error")
    assert "frobnicate" in str(error)
    assert (await refusal(app, model="claude")).type == "not_found_error"
    too_large = await post(app, "/v1/messages", HELLO | {"system": "x" * 200_000})
    assert (too_large.status, too_large.json()["error"]["type"]) == (413, "request_too_large")


async def test_a_wrong_method_has_the_words_of_the_api(app: ASGIApp) -> None:
    answer = await get(app, "/v1/messages")
    assert answer.status == 405
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["type"] == "error"


async def test_a_failure_in_mid_stream_is_an_error_event(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), UnavailableError("the engine is gone")]
    answer = await post(app, "/v1/messages", STREAM)
    assert answer.status == 200
    *_, (name, error) = named_events(answer.body)
    assert name == "error"
    assert error["error"] == {"type": "overloaded_error", "message": "the engine is gone"}
    with pytest.raises(anthropic.APIStatusError, match="engine is gone"):
        async with anthropic_client(app).messages.stream(
            model="tiny", max_tokens=16, messages=[{"role": "user", "content": "Hi"}]
        ) as stream:
            await stream.until_done()


async def test_a_stream_that_stops_short_is_no_message(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a")]
    assert named_events((await post(app, "/v1/messages", STREAM)).body)[-1][0] == "error"


async def test_a_silent_stream_says_with_pings_that_it_lives(
    service: ScriptedService, metrics: Metrics, config: HttpConfig
) -> None:
    gate = asyncio.Event()
    service.script = [gate, token("a"), finish()]
    app = create_app(service, metrics, replace(config, patience=Patience(keep_alive_s=0.001)))
    conversation = talk(app, "/v1/messages", json.dumps(STREAM).encode())
    assert named_events(await conversation.read()) == [("ping", {"type": "ping"})]
    gate.set()
    names = [name for name, _ in named_events((await conversation.end()).body)]
    assert next(name for name in names if name != "ping") == "message_start"


async def test_a_client_that_goes_aborts_the_work(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), asyncio.Event()]
    conversation = talk(app, "/v1/messages", json.dumps(STREAM).encode())
    await conversation.read()
    conversation.leave()
    await conversation.end()
    assert service.stream.num_closed == 1


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
async def test_both_versions_of_the_api_are_spoken(app: ASGIApp, version: str) -> None:
    assert (await post(app, "/v1/messages", HELLO, anthropic_version=version)).status == 200


async def test_another_version_is_refused_by_name(app: ASGIApp) -> None:
    answer = await post(app, "/v1/messages", HELLO, anthropic_version="2023-01-01")
    assert answer.status == 400
    assert "2023-01-01" in answer.json()["error"]["message"]


async def test_a_key_may_come_in_the_header_of_the_api(service: ScriptedService, metrics: Metrics) -> None:
    app = create_app(service, metrics, HttpConfig(api_keys=ApiKeys({KEY: Client("shop", "gold")})))
    answers = [
        await post(app, "/v1/messages", HELLO, x_api_key=KEY),
        await post(app, "/v1/messages", HELLO, authorization=f"Bearer {KEY}"),
        await post(app, "/v1/messages", HELLO, x_api_key="wrong", authorization=f"Bearer {KEY}"),
        await post(app, "/v1/messages/count_tokens", {"messages": HELLO["messages"]}),
        await post(app, "/v1/chat/completions", {"messages": HELLO["messages"]}, x_api_key=KEY),
    ]
    assert [answer.status for answer in answers] == [200, 200, 401, 401, 401]
    assert answers[2].json()["error"]["type"] == "authentication_error"
    assert "x-api-key" in answers[2].json()["error"]["message"]
    assert answers[0].headers["x-service-class"] == "gold"


@pytest.mark.parametrize("prefix", ["", "/v1", "/beta", "/anthropic", "/anthropic/v1"])
async def test_it_is_where_clients_look_for_it(app: ASGIApp, prefix: str) -> None:
    assert (await post(app, prefix + "/messages?beta=true", HELLO)).status == 200


async def test_tokens_are_counted_without_an_answer(app: ASGIApp, service: ScriptedService) -> None:
    client = anthropic_client(app)
    short, long = [
        await client.messages.count_tokens(model="tiny", system=system, messages=[{"role": "user", "content": "Hi"}])
        for system in ("", "Be brief.")
    ]
    assert 0 < short.input_tokens < long.input_tokens
    assert service.generations == []


async def test_tools_are_counted_too(app: ASGIApp) -> None:
    client, messages = anthropic_client(app), [{"role": "user", "content": "Hi"}]
    counts = [
        (await client.messages.count_tokens(model="tiny", messages=messages, tools=tools)).input_tokens  # type: ignore[arg-type]  # dicts
        for tools in ([], [LOOK])
    ]
    assert counts[0] < counts[1]


LOOK: dict[str, Any] = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
MIXED: list[Step] = [
    *(thought("Hm"), thought("m."), token("I "), token("look."), call(0, name="look"), call(0, '{"a"')),
    *(call(0, ": 1}"), call(1, name="look"), token("There."), finish(reason=FinishReason.TOOL_CALLS)),
]
MIXED_CONTENT = [
    {"type": "thinking", "thinking": "Hmm.", "signature": "unsigned"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "call_0_0", "name": "look", "input": {"a": 1}},
    {"type": "tool_use", "id": "call_0_1", "name": "look", "input": {}},
    {"type": "text", "text": "There."},
]


async def test_thinking_text_and_uses_of_tools_are_blocks_in_their_order(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.script = MIXED
    answer = (await post(app, "/v1/messages", HELLO | {"tools": [LOOK]})).json()
    assert answer["content"] == MIXED_CONTENT
    assert answer["stop_reason"] == "tool_use"
    assert answer["usage"]["output_tokens_details"] == {"thinking_tokens": 2}


async def test_blocks_grow_one_after_another(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    events = [event for _, event in named_events((await post(app, "/v1/messages", STREAM | {"tools": [LOOK]})).body)]

    def delta(index: int, kind: str, **fields: str) -> dict[str, object]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}

    def start(index: int, **block: object) -> dict[str, object]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def stop(index: int) -> dict[str, object]:
        return {"type": "content_block_stop", "index": index}

    assert events[1:-2] == [
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "thinking_delta", thinking="m."),
        delta(0, "signature_delta", signature="unsigned"),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "text_delta", text="I "),
        delta(1, "text_delta", text="look."),
        stop(1),
        start(2, type="tool_use", id="call_0_0", name="look", input={}),
        delta(2, "input_json_delta", partial_json='{"a"'),
        delta(2, "input_json_delta", partial_json=": 1}"),
        stop(2),
        start(3, type="tool_use", id="call_0_1", name="look", input={}),
        stop(3),
        start(4, type="text", text=""),
        delta(4, "text_delta", text="There."),
        stop(4),
    ]
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


async def test_the_official_client_gathers_blocks_of_every_kind(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    options: dict[str, Any] = HELLO | {"model": "tiny", "tools": [LOOK]}
    async with anthropic_client(app).messages.stream(**options) as stream:
        gathered = await stream.get_final_message()
    whole = await ask(app, tools=[LOOK])
    assert [each.to_dict() for each in gathered.content] == [each.to_dict() for each in whole.content] == MIXED_CONTENT
    assert (gathered.stop_reason, gathered.usage) == (whole.stop_reason, whole.usage)


async def test_blocks_of_an_answer_go_back_in_as_they_came(app: ASGIApp, service: ScriptedService) -> None:
    service.script = MIXED
    answer = await ask(app, tools=[LOOK])
    results = [
        {"type": "tool_result", "tool_use_id": each.id, "content": "sunny"}
        for each in answer.content
        if each.type == "tool_use"
    ]
    turns = [
        *messages_of(HELLO),
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": results},
    ]
    await ask(app, tools=[LOOK], messages=turns)
    prompt = service.generations[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert [message["role"] for message in prompt.messages] == ["user", "assistant", "tool", "tool"]
    assert prompt.messages[1]["reasoning_content"] == "Hmm."
    assert prompt.messages[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"a": 1}'}


def messages_of(fields: dict[str, Any]) -> list[Any]:
    return list(fields["messages"])


async def test_thinking_is_not_shown_to_who_wants_none_of_it(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [thought("Hm"), thought("m."), token("a"), finish()]
    fields = {"thinking": {"type": "adaptive", "display": "omitted"}}
    answer = await post(app, "/v1/messages", HELLO | fields)
    assert answer.json()["content"][0] == {"type": "thinking", "thinking": "", "signature": "unsigned"}
    streamed = await post(app, "/v1/messages", STREAM | fields)
    names = [event.get("delta", {}).get("type") for _, event in named_events(streamed.body)]
    assert "thinking_delta" not in names
    assert "signature_delta" in names


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("", {}),
        (" \n", {}),
        ('{"n": 12345678901234567890123, "x": 1.50}', {"n": 12345678901234567890123, "x": 1.5}),
        ('{"city": "Ro', {"_raw": '{"city": "Ro'}),
        ("[1]", {"_raw": "[1]"}),
        ("{'a': 1}", {"_raw": "{'a': 1}"}),
        ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
        ('{"a":' * 5000 + "1" + "}" * 5000, {"_raw": '{"a":' * 5000 + "1" + "}" * 5000}),
    ],
)
async def test_an_input_is_an_object_whatever_the_model_wrote(
    app: ASGIApp, service: ScriptedService, arguments: str, shown: dict[str, object]
) -> None:
    service.script = [call(0, arguments, name="look"), finish(reason=FinishReason.TOOL_CALLS)]
    answer = (await post(app, "/v1/messages", HELLO | {"tools": [LOOK]})).json()
    assert answer["content"] == [{"type": "tool_use", "id": "call_0_0", "name": "look", "input": shown}]
