"""Answers, whole and streamed: their shapes, their errors, and what happens when the client goes away."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import ASGIApp

from tailrace.errors import EngineError, Overloaded, RefusalReason, UnavailableError
from tailrace.service.api import ChoiceDelta, TextLogprob
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason
from tests.support.asgi import Conversation, post, sse_data, talk
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token

CHAT: dict[str, object] = {"messages": [{"role": "user", "content": "Hi"}]}
STREAM = CHAT | {"stream": True}
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 2,
    "total_tokens": 9,
    "prompt_tokens_details": {
        "cached_tokens": 4,
        "cached_tokens_details": {"engine": 1, "host": 3},
        "cache_miss_reason": "evicted",
    },
    "completion_tokens_details": {"reasoning_tokens": 0},
    "prompt_cache_hit_tokens": 4,
    "prompt_cache_miss_tokens": 3,
}
LOGPROB = TextLogprob(5, "é", "é".encode(), -0.5, (TextLogprob(6, "e", b"e", -float("inf")),))


def open_chat(app: ASGIApp, **fields: object) -> Conversation:
    return talk(app, "/v1/chat/completions", json.dumps(CHAT | fields).encode())


def without_identity(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("id", "created")}


async def test_a_whole_chat_answer_has_the_shape_of_the_api(app: ASGIApp) -> None:
    answer = await post(app, "/v1/chat/completions", CHAT)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.json()["id"].startswith("chatcmpl-")
    assert without_identity(answer.json()) == {
        "object": "chat.completion",
        "model": "tiny",
        "system_fingerprint": "tailrace-1.2.3",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello world", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": None,
            }
        ],
        "usage": USAGE,
    }


async def test_a_whole_completion_has_the_shape_of_the_api(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("Hello"), token(" world"), finish(reason=FinishReason.LENGTH)]
    answer = (await post(app, "/v1/completions", {"prompt": "Hi"})).json()
    assert answer["id"].startswith("cmpl-")
    assert without_identity(answer) == {
        "object": "text_completion",
        "model": "tiny",
        "system_fingerprint": "tailrace-1.2.3",
        "choices": [
            {"index": 0, "text": "Hello world", "logprobs": None, "finish_reason": "length", "stop_reason": None}
        ],
        "usage": USAGE,
    }


async def test_a_chat_stream_has_the_shape_of_the_api(app: ASGIApp) -> None:
    answer = await post(app, "/v1/chat/completions", STREAM)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-length" not in answer.headers
    events = answer.events()
    assert len({(event["id"], event["created"]) for event in events}) == 1
    assert [without_identity(event) for event in events] == [
        {
            "object": "chat.completion.chunk",
            "model": "tiny",
            "system_fingerprint": "tailrace-1.2.3",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason} | extra],
        }
        for delta, reason, extra in [
            ({"role": "assistant", "content": ""}, None, {}),
            ({"content": "Hello"}, None, {}),
            ({"content": " world"}, None, {}),
            ({}, "stop", {"stop_reason": None}),
        ]
    ]


async def test_a_completion_stream_has_the_shape_of_the_api(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), finish(text="b", stop_reason="c")]
    events = (await post(app, "/v1/completions", {"prompt": "Hi", "stream": True})).events()
    assert {event["object"] for event in events} == {"text_completion"}
    assert [event["choices"] for event in events] == [
        [{"index": 0, "text": "a", "logprobs": None, "finish_reason": None}],
        [{"index": 0, "text": "b", "logprobs": None, "finish_reason": None}],
        [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop", "stop_reason": "c"}],
    ]


async def test_usage_comes_in_a_last_chunk_and_is_null_before(app: ASGIApp) -> None:
    fields = STREAM | {"stream_options": {"include_usage": True}}
    *before, last = (await post(app, "/v1/chat/completions", fields)).events()
    assert all(event["usage"] is None for event in before)
    assert last["choices"] == []
    assert last["usage"] == USAGE


async def test_usage_can_come_in_every_chunk(app: ASGIApp, service: ScriptedService) -> None:
    service.most_at_once = 1
    fields = STREAM | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    events = (await post(app, "/v1/chat/completions", fields)).events()
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 1, 2, 2, 2]


async def test_without_the_wish_no_chunk_has_usage(app: ASGIApp) -> None:
    assert not any("usage" in event for event in (await post(app, "/v1/chat/completions", STREAM)).events())


CHAT_LOGPROB = {
    "token": "é",
    "logprob": -0.5,
    "bytes": [195, 169],
    "top_logprobs": [{"token": "e", "logprob": -9999.0, "bytes": [101]}],
}


async def test_chat_log_probabilities_come_as_objects(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("é", logprobs=(LOGPROB,)), finish()]
    fields = {"logprobs": True, "top_logprobs": 1}
    whole = (await post(app, "/v1/chat/completions", CHAT | fields)).json()
    assert whole["choices"][0]["logprobs"] == {"content": [CHAT_LOGPROB], "refusal": None}
    _, text, end = (await post(app, "/v1/chat/completions", STREAM | fields)).events()
    assert text["choices"][0]["delta"] == {"content": "é"}
    assert text["choices"][0]["logprobs"] == {"content": [CHAT_LOGPROB], "refusal": None}
    assert end["choices"][0]["logprobs"] is None


async def test_completion_log_probabilities_come_as_lists(app: ASGIApp, service: ScriptedService) -> None:
    first, second, third = (replace(LOGPROB, offset=offset) for offset in (0, 1, 2))
    service.script = [token("éé", logprobs=(first, second)), token("é", logprobs=(third,)), finish()]
    fields = {"prompt": "Hi", "logprobs": 1}
    whole = (await post(app, "/v1/completions", fields)).json()["choices"][0]["logprobs"]
    assert whole == {
        "tokens": ["é"] * 3,
        "token_logprobs": [-0.5] * 3,
        "top_logprobs": [{"é": -0.5, "e": -9999.0}] * 3,
        "text_offset": [0, 1, 2],
    }
    head, tail, _ = (await post(app, "/v1/completions", fields | {"stream": True})).events()
    assert head["choices"][0]["logprobs"]["text_offset"] == [0, 1]
    assert tail["choices"][0]["logprobs"]["text_offset"] == [2]


async def test_offsets_are_those_of_the_text_whatever_its_tokens_look_like(
    app: ASGIApp, service: ScriptedService
) -> None:
    """Three tokens make one character, and a hidden one none."""
    parts = [TextLogprob(i, "\ufffd", b"\xf0", -0.5, offset=1) for i in range(3)]
    hidden, after = TextLogprob(7, "<|end|>", b"<|end|>", -0.5, offset=2), TextLogprob(8, "b", b"b", -0.5, offset=2)
    service.script = [
        token("a", logprobs=(TextLogprob(9, "a", b"a", -0.5),)),
        token("\U0001f600", logprobs=tuple(parts)),
        token("b", logprobs=(hidden, after)),
        finish(),
    ]
    fields = {"prompt": "Hi", "logprobs": 0}
    whole = (await post(app, "/v1/completions", fields)).json()["choices"][0]["logprobs"]
    assert whole["text_offset"] == [0, 1, 1, 1, 2, 2]
    *events, _ = (await post(app, "/v1/completions", fields | {"stream": True})).events()
    assert [event["choices"][0]["logprobs"]["text_offset"] for event in events] == [[0], [1, 1, 1], [2, 2]]


async def test_log_probabilities_without_text_are_not_lost(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("", logprobs=(LOGPROB,)), finish()]
    _, text, _ = (await post(app, "/v1/chat/completions", STREAM | {"logprobs": True})).events()
    assert text["choices"][0]["delta"] == {}
    assert len(text["choices"][0]["logprobs"]["content"]) == 1


async def test_held_back_text_sends_no_empty_chunk(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), token(""), token("b"), finish()]
    events = (await post(app, "/v1/chat/completions", STREAM)).events()
    assert [event["choices"][0]["delta"].get("content") for event in events] == ["", "a", "b", None]


THINKING_AND_CALLING: tuple[Step, ...] = (
    thought("Two"),
    thought(" cities."),
    token("I look."),
    call(0, name="weather"),
    call(0, '{"city":'),
    call(0, '"Rome"}'),
    call(1, '{"city":"Oslo"}', name="weather"),
    finish(reason=FinishReason.TOOL_CALLS),
)


async def test_a_whole_answer_has_its_reasoning_twice_and_its_calls(app: ASGIApp, service: ScriptedService) -> None:
    service.script = THINKING_AND_CALLING
    answer = (await post(app, "/v1/chat/completions", CHAT)).json()
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "I look.",
        "refusal": None,
        "reasoning_content": "Two cities.",
        "reasoning": "Two cities.",
        "tool_calls": [
            {"id": "call_0_0", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
            {"id": "call_0_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
        ],
    }
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


async def test_a_stream_has_each_call_by_its_place(app: ASGIApp, service: ScriptedService) -> None:
    service.script = THINKING_AND_CALLING
    events = (await post(app, "/v1/chat/completions", STREAM)).events()
    assert [event["choices"][0]["delta"] for event in events] == [
        {"role": "assistant", "content": None},
        {"reasoning_content": "Two", "reasoning": "Two"},
        {"reasoning_content": " cities.", "reasoning": " cities."},
        {"content": "I look."},
        _begin("call_0_0", 0),
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
        _begin("call_0_1", 1),
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"city":"Oslo"}'}}]},
        {},
    ]
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def _begin(call_id: str, index: int) -> dict[str, Any]:
    function = {"name": "weather", "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}


@pytest.mark.parametrize(
    ("script", "content"),
    [
        ((call(0, "{}", "f"), finish(reason=FinishReason.TOOL_CALLS)), None),
        ((thought("Hm"), finish(reason=FinishReason.LENGTH)), None),
        ((thought("Hm"), token("a"), finish()), "a"),
        ((finish(),), ""),
    ],
)
async def test_content_is_null_where_there_is_something_else_in_its_place(
    app: ASGIApp, service: ScriptedService, script: list[Step], content: str | None
) -> None:
    service.script = script
    whole = (await post(app, "/v1/chat/completions", CHAT)).json()
    assert whole["choices"][0]["message"]["content"] == content
    first, *_ = (await post(app, "/v1/chat/completions", STREAM)).events()
    assert first["choices"][0]["delta"]["content"] == ("" if content == "" else None)


async def test_reasoning_that_is_not_wanted_is_left_out(app: ASGIApp, service: ScriptedService) -> None:
    thought_of = replace(LOGPROB, is_reasoning=True)
    service.script = (thought("Hm", logprobs=(thought_of,)), token("é", logprobs=(LOGPROB,)), finish())
    fields = {"include_reasoning": False, "logprobs": True, "top_logprobs": 1}
    whole = (await post(app, "/v1/chat/completions", CHAT | fields)).json()
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "é", "refusal": None}
    assert whole["choices"][0]["logprobs"] == {"content": [CHAT_LOGPROB], "refusal": None}
    assert whole["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}
    for extra in (fields, {"include_reasoning": False}):
        answer = await post(app, "/v1/chat/completions", STREAM | extra)
        assert b"Hm" not in answer.body
        deltas = [event["choices"][0]["delta"] for event in answer.events()]
        assert deltas == [{"role": "assistant", "content": None}, {"content": "é"}, {}]


async def test_log_probabilities_of_reasoning_are_apart(app: ASGIApp, service: ScriptedService) -> None:
    thought_of = replace(LOGPROB, is_reasoning=True)
    service.script = (thought("é", logprobs=(thought_of,)), token("é", logprobs=(LOGPROB,)), finish())
    fields = {"logprobs": True, "top_logprobs": 1}
    whole = (await post(app, "/v1/chat/completions", CHAT | fields)).json()
    both = {"content": [CHAT_LOGPROB], "refusal": None, "reasoning_content": [CHAT_LOGPROB]}
    assert whole["choices"][0]["logprobs"] == both
    _, first, second, _ = (await post(app, "/v1/chat/completions", STREAM | fields)).events()
    assert first["choices"][0]["logprobs"] == both | {"content": []}
    assert second["choices"][0]["logprobs"] == {"content": [CHAT_LOGPROB], "refusal": None}


async def test_choices_of_several_prompts_are_numbered_prompt_by_prompt(app: ASGIApp, service: ScriptedService) -> None:
    service.script_of = lambda generation: [
        step for i in range(2) for step in (token(f"{generation.prompt}#{i}", i), finish(i))
    ]
    answer = (await post(app, "/v1/completions", {"prompt": ["a", "b"], "n": 2})).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    for index, (letter, i) in enumerate([("a", 0), ("a", 1), ("b", 0), ("b", 1)]):
        assert f"text='{letter}'" in answer["choices"][index]["text"]
        assert answer["choices"][index]["text"].endswith(f"#{i}")
    assert answer["usage"]["prompt_tokens"] == 14
    assert answer["usage"]["completion_tokens"] == 4
    assert [stream.num_closed for stream in service.streams] == [1, 1]


async def test_a_failing_prompt_ends_the_others(app: ASGIApp, service: ScriptedService) -> None:
    gate = asyncio.Event()
    service.script_of = lambda generation: [EngineError("x")] if generation.request_id.endswith(".1") else [gate]
    assert (await post(app, "/v1/completions", {"prompt": ["a", "b", "c"]})).status == 500
    assert [stream.num_closed for stream in service.streams] == [1, 1, 1]


async def test_a_prompt_that_cannot_start_leaves_none_behind(app: ASGIApp, service: ScriptedService) -> None:
    def refuse_the_second(generation: object) -> list[Any]:
        if len(service.generations) == 2:
            raise UnavailableError("full")
        return [finish()]

    service.script_of = refuse_the_second
    assert (await post(app, "/v1/completions", {"prompt": ["a", "b", "c"]})).status == 503
    assert [stream.num_closed for stream in service.streams] == [1]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_error_before_the_first_text_has_its_status(
    app: ASGIApp, service: ScriptedService, is_streamed: bool
) -> None:
    failures: list[tuple[Step, int]] = [
        (UnavailableError("gone"), 503),
        (EngineError("x"), 500),
        (finish(reason=FinishReason.ERROR, error="x"), 500),
        (finish(reason=FinishReason.ABORT), 503),
    ]
    for failure, status in failures:
        service.script = [failure]
        answer = await post(app, "/v1/completions", {"prompt": "Hi", "stream": is_streamed})
        assert answer.status == status
        assert answer.json()["error"]["type"] == "server_error"


async def test_an_error_after_the_first_text_is_an_event_and_the_stream_is_not_done(
    app: ASGIApp, service: ScriptedService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAILRACE_DEBUG", raising=False)
    for failure in (EngineError("secret"), finish(reason=FinishReason.ERROR, error="secret")):
        gate = asyncio.Event()
        service.script = [token("a"), gate, failure]
        conversation = open_chat(app, stream=True)
        await conversation.read()
        gate.set()
        answer = await conversation.end()
        assert answer.status == 200
        assert answer.is_complete
        *texts, error = [json.loads(data) for data in sse_data(answer.body)]
        assert texts[-1]["choices"][0]["delta"] == {"content": "a"}
        assert error["error"]["code"] == "internal_error"
        assert b"secret" not in answer.body
    assert caplog.text.count(" failed: EngineError at ") == 2
    assert "secret" not in caplog.text
    assert all(stream.num_closed == 1 for stream in service.streams)


async def test_a_stream_that_stops_short_is_an_error_and_not_an_answer(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a", 0), finish(0), token("b", 1)]
    assert (await post(app, "/v1/completions", {"prompt": "Hi", "n": 2})).status == 500
    streamed = await post(app, "/v1/completions", {"prompt": "Hi", "n": 2, "stream": True})
    assert "error" in json.loads(sse_data(streamed.body)[-1])


async def test_text_leaves_as_soon_as_it_is_there(app: ASGIApp, service: ScriptedService) -> None:
    gates = [asyncio.Event() for _ in range(3)]
    service.script = [gates[0], token("a"), gates[1], token("b"), gates[2], finish()]
    conversation = open_chat(app, stream=True)
    for gate, text in zip(gates, (b'"a"', b'"b"', b"[DONE]"), strict=True):
        gate.set()
        assert text in await conversation.read()
    await conversation.end()


async def test_what_comes_at_once_leaves_in_one_write(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [*(token(str(i)) for i in range(10)), finish()]
    answer = await post(app, "/v1/chat/completions", STREAM)
    assert len(answer.pieces) == 1


async def test_nothing_is_read_for_a_client_that_takes_nothing(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    num_tokens = 1000
    service.script = [*(token(f"word {i} ") for i in range(num_tokens)), finish()]
    conversation = open_chat(app, stream=True)
    conversation.can_write.clear()
    while not service.streams or service.stream.num_read == 0:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert service.stream.num_read == service.most_at_once
    assert "tailrace_http_buffered_bytes 0.0" not in metrics.render("")[0].decode()
    conversation.can_write.set()
    events = (await conversation.end()).events()
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
    assert text == "".join(f"word {i} " for i in range(num_tokens))
    assert "tailrace_http_buffered_bytes 0.0" in metrics.render("")[0].decode()


async def leave_and_check(conversation: Conversation, metrics: Metrics, phase: str) -> None:
    conversation.leave()
    await conversation.end()
    assert not conversation.answer.is_complete
    exposition = metrics.render("")[0].decode()
    assert f'tailrace_http_client_disconnects_total{{phase="{phase}"}} 1.0' in exposition
    assert 'status="499"} 1.0' in exposition


async def test_a_client_that_goes_while_sending_is_counted(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    await leave_and_check(talk(app, "/v1/completions", b'{"pro', is_body_whole=False), metrics, "body")
    assert service.generations == []


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_client_that_goes_while_the_service_starts_cancels_that(
    app: ASGIApp, service: ScriptedService, metrics: Metrics, is_streamed: bool
) -> None:
    service.start_step = asyncio.Event()
    conversation = open_chat(app, stream=is_streamed)
    while not service.generations:
        await asyncio.sleep(0)
    await leave_and_check(conversation, metrics, "waiting")
    assert service.was_cancelled_at_start


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_client_that_goes_before_the_first_text_aborts_the_work(
    app: ASGIApp, service: ScriptedService, metrics: Metrics, is_streamed: bool
) -> None:
    service.script = [asyncio.Event()]
    conversation = open_chat(app, stream=is_streamed)
    while not service.streams:
        await asyncio.sleep(0)
    await leave_and_check(conversation, metrics, "waiting")
    assert service.stream.num_closed == 1


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_client_that_goes_in_mid_answer_aborts_the_work(
    app: ASGIApp, service: ScriptedService, metrics: Metrics, is_streamed: bool
) -> None:
    service.script = [token("a"), asyncio.Event(), token("never")]
    conversation = open_chat(app, stream=is_streamed)
    while not service.streams or service.stream.num_read == 0:
        await asyncio.sleep(0)
    if is_streamed:
        await conversation.read()
    await leave_and_check(conversation, metrics, "answering")
    assert service.stream.num_closed == 1
    assert service.stream.num_read == 1


async def test_a_client_that_neither_reads_nor_stays_aborts_the_work(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    service.script = [token("x" * 100)] * 1000
    conversation = open_chat(app, stream=True)
    conversation.can_write.clear()
    while not service.streams or service.stream.num_read == 0:
        await asyncio.sleep(0)
    conversation.leave()
    await conversation.end()
    assert service.stream.num_closed == 1


async def test_the_end_of_the_server_is_told_and_closes_what_is_open(app: ASGIApp, service: ScriptedService) -> None:
    service.script = [token("a"), asyncio.Event()]
    streamed, whole = open_chat(app, stream=True), open_chat(app)
    await streamed.read()
    for conversation in (streamed, whole):
        conversation.task.cancel()
        assert (await conversation.end()).is_complete
    assert json.loads(sse_data(streamed.answer.body)[-1])["error"]["code"] == "unavailable"
    assert whole.answer.status == 503
    assert [stream.num_closed for stream in service.streams] == [1, 1]


async def test_a_client_that_does_not_read_cannot_hold_up_the_end_of_the_server(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.script = [token("a"), asyncio.Event()]
    conversation = open_chat(app, stream=True)
    await conversation.read()
    conversation.can_write.clear()
    conversation.task.cancel()
    assert not (await conversation.end()).is_complete
    assert service.stream.num_closed == 1


async def test_a_finished_stream_is_closed_once_and_no_client_counts_as_gone(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    for fields in (CHAT, STREAM):
        await post(app, "/v1/chat/completions", fields)
    assert [stream.num_closed for stream in service.streams] == [1, 1]
    assert 'status="499"' not in metrics.render("")[0].decode()


async def test_gaps_and_the_first_text_are_measured(app: ASGIApp, metrics: Metrics) -> None:
    for fields in (CHAT, STREAM):
        await post(app, "/v1/chat/completions", fields)
    exposition = metrics.render("")[0].decode()
    assert 'tailrace_first_text_seconds_count{class="silver",front_end="http"} 2.0' in exposition
    assert 'tailrace_inter_token_latency_seconds_count{class="silver"} 2.0' in exposition  # two tokens each


async def test_an_echo_is_neither_the_first_text_nor_followed_by_a_gap(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    gate = asyncio.Event()
    service.script = [ChoiceDelta(0, "Hi"), gate, token("a"), token("b"), finish()]
    conversation = talk(app, "/v1/completions", b'{"prompt":"Hi","echo":true,"stream":true}')
    await conversation.read()
    assert 'tailrace_first_text_seconds_count{class="silver",front_end="http"} 0.0' in metrics.render("")[0].decode()
    gate.set()
    await conversation.end()
    exposition = metrics.render("")[0].decode()
    assert 'tailrace_first_text_seconds_count{class="silver",front_end="http"} 1.0' in exposition
    assert 'tailrace_inter_token_latency_seconds_count{class="silver"} 1.0' in exposition


LATE = Overloaded("it waited", retry_after_s=2.5, reason=RefusalReason.QUEUE_TIMEOUT)


@pytest.mark.parametrize("prompt", ["Hi", ["Hi", "Ho"]])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_who_is_turned_away_before_the_first_token_gets_a_status_and_not_a_stream(
    app: ASGIApp, service: ScriptedService, prompt: str | list[str], *, is_streamed: bool
) -> None:
    gate = asyncio.Event()
    service.script_of = lambda generation: [LATE] if len(service.generations) == 1 else [gate]
    answer = await post(app, "/v1/completions", {"prompt": prompt, "n": 2, "stream": is_streamed})
    assert answer.status == 429
    assert answer.headers["retry-after"] == "3"
    assert answer.headers["x-llm-d-request-dropped-reason"] == "queue_timeout"
    assert answer.json()["error"]["code"] == "queue_timeout"
    assert [stream.num_closed for stream in service.streams] == [1] * len(service.streams)


async def test_a_choice_that_is_turned_away_after_the_others_began_ends_the_stream_with_an_error(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.script = [token("a"), LATE]
    answer = await post(app, "/v1/completions", {"prompt": "Hi", "n": 2, "stream": True})
    assert answer.status == 200
    assert json.loads(sse_data(answer.body)[-1])["error"]["code"] == "queue_timeout"
