import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bench.exchange import Address, WireError
from tailrace.bench.pieces import Piece
from tailrace.bench.server import Server, StreamRequest
from tailrace.bench.stream import Streamed
from tests.unit.bench.scripted import (
    Asked,
    Script,
    chat_chunk,
    event,
    head,
    json_answer,
    scripted,
    text_chunk,
    usage_chunk,
    whole_answer,
)

COMPLETION = StreamRequest("m", "Once upon", 5, {"temperature": 0.0})


def always(*pieces: bytes) -> Script:
    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    return script


async def stream(*pieces: bytes, request: StreamRequest = COMPLETION) -> tuple[Streamed, str]:
    received: list[Piece] = []
    async with scripted(always(*pieces)) as server:
        streamed = await Server(Address.parse(server.url), 10.0).stream(request, received.append)
    return streamed, "".join(piece.text for piece in received)


async def test_a_whole_stream_gives_text_tokens_and_the_reason_it_ended() -> None:
    usage = usage_chunk(7, 4, cached=2)
    streamed, text = await stream(
        head(), text_chunk("a time"), text_chunk("."), text_chunk("", "stop"), usage, event("[DONE]")
    )

    assert text == "a time."
    assert streamed.is_ok
    assert (streamed.prompt_tokens, streamed.output_tokens, streamed.cached_tokens) == (7, 4, 2)
    assert streamed.finish_reason == "stop"


async def test_only_chunks_with_output_are_timed_and_each_when_it_arrived() -> None:
    first_seen = asyncio.Event()
    released_s: list[float] = []

    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        yield head() + b": keep-alive\n\n" + text_chunk("") + text_chunk("a")
        await first_seen.wait()
        released_s.append(time.perf_counter())
        yield text_chunk("b") + text_chunk("", "stop") + event("[DONE]")

    async with scripted(script) as server:
        streamed = await Server(Address.parse(server.url), 10.0).stream(COMPLETION, lambda _text: first_seen.set())

    first_s, second_s = streamed.chunk_s
    assert streamed.connect_s > 0
    assert streamed.sent_s < first_s < released_s[0] < second_s <= streamed.ended_s


async def test_the_body_asks_for_a_stream_with_usage_and_carries_the_extras() -> None:
    async with scripted(always(whole_answer(["x"]))) as server:
        client = Server(Address.parse(server.url), 10.0)
        await client.stream(COMPLETION)
        await client.stream(StreamRequest("m", [{"role": "user", "content": "hi"}]))

    completion, chat = server.asked
    stream_fields = {"stream": True, "stream_options": {"include_usage": True}}
    assert completion.path == "/v1/completions"
    assert completion.body == {
        "model": "m",
        "prompt": "Once upon",
        "max_tokens": 5,
        "temperature": 0.0,
        **stream_fields,
    }
    assert chat.path == "/v1/chat/completions"
    assert chat.body == {"model": "m", "messages": [{"role": "user", "content": "hi"}], **stream_fields}


async def test_chat_output_is_content_reasoning_or_a_tool_call_but_not_the_role() -> None:
    streamed, text = await stream(
        head(),
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"reasoning_content": "hm, "}),
        chat_chunk({"reasoning": "well, "}),
        chat_chunk({"content": "yes"}),
        chat_chunk({"tool_calls": [{"index": 0}]}),
        chat_chunk({}, "tool_calls"),
        event("[DONE]"),
    )

    assert text == "yes"
    assert len(streamed.chunk_s) == 4


async def test_a_stream_without_usage_is_whole_but_its_tokens_are_unknown() -> None:
    streamed, text = await stream(head(), text_chunk("a"), text_chunk("b", "stop"), event("[DONE]"))

    assert streamed.is_ok
    assert text == "ab"
    assert streamed.output_tokens is None


async def test_cached_tokens_are_known_by_the_name_deepseek_gives_them_too() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 1, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 3}

    streamed, _ = await stream(head(), text_chunk("a", "stop"), event({"choices": [], "usage": usage}), event("[DONE]"))

    assert streamed.cached_tokens == 4


async def test_a_stream_may_end_with_a_finish_reason_instead_of_done() -> None:
    streamed, _ = await stream(head(), text_chunk("a", "stop"))

    assert streamed.is_ok


async def test_tokens_that_decode_to_nothing_count_as_output_when_the_stream_finishes() -> None:
    streamed, text = await stream(head(), text_chunk("", "length"), usage_chunk(3, 1), event("[DONE]"))

    assert streamed.is_ok
    assert text == ""
    assert len(streamed.chunk_s) == 1
    assert streamed.sent_s < streamed.chunk_s[0] <= streamed.ended_s


@pytest.mark.parametrize(
    ("pieces", "kind", "message"),
    [
        ([text_chunk("a")], "disconnect", "without a finish_reason"),
        ([], "disconnect", "without a finish_reason"),
        ([event("[DONE]")], "empty", "no output"),
        ([usage_chunk(3, 1), event("[DONE]")], "empty", "no output"),
        ([text_chunk("", "stop"), usage_chunk(3, 0), event("[DONE]")], "empty", "no output"),
        ([text_chunk("a"), event({"error": {"message": "out of blocks"}})], "server_error", "out of blocks"),
        ([event("{not json")], "garbage", "not a completion chunk"),
        ([event({"choices": "none"})], "garbage", "not a completion chunk"),
        ([event({"choices": [{"text": 7}]})], "garbage", "not a completion chunk"),
        ([b"data: \xff\xfe\n\n"], "garbage", "not a completion chunk"),
        ([event('{"error":' + "[" * 100_000)], "garbage", "not a completion chunk"),
    ],
)
async def test_a_broken_stream_is_counted_by_kind_never_raised(pieces: list[bytes], kind: str, message: str) -> None:
    streamed, _ = await stream(head(), *pieces)

    assert streamed.error_kind == kind
    assert message in streamed.error
    assert streamed.ended_s > streamed.sent_s > 0


ANSWER = whole_answer(["a", "time", "and"])
KINDS = {None, "disconnect", "empty", "server_error", "garbage"}


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, len(ANSWER) - 1), st.binary(max_size=3)), max_size=4), st.integers(0, 400))
def test_no_damage_to_an_answer_makes_the_client_raise(damage: list[tuple[int, bytes]], cut: int) -> None:
    answer = bytearray(ANSWER)
    for place, patch in damage:
        answer[place : place + len(patch)] = patch

    streamed, _ = asyncio.run(stream(bytes(answer[: len(answer) - cut])))

    assert streamed.error_kind in KINDS or str(streamed.error_kind).startswith("http_")
    assert streamed.is_ok == (streamed.error_kind is None)
    assert streamed.ended_s >= streamed.sent_s > 0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "queue is full", "type": "overloaded", "code": None}}, "queue is full"),
        ({"error": "queue is full"}, "queue is full"),
        ({"object": "error", "message": "queue is full"}, "queue is full"),
        ({"detail": "queue is full"}, "queue is full"),
        ({"reason": "busy"}, '{"reason": "busy"}'),
        ({"error": {}}, '{"error": {}}'),
        (["busy"], '["busy"]'),
    ],
)
async def test_a_refused_request_carries_the_servers_own_words(body: Any, said: str) -> None:
    streamed, _ = await stream(json_answer(body, 429))

    assert streamed.error_kind == "http_429"
    assert streamed.error == f"HTTP 429: {said}"


async def test_models_and_token_ids_are_read_from_the_server() -> None:
    async def script(asked: Asked) -> AsyncIterator[bytes]:
        models = {"object": "list", "data": [{"id": "first", "object": "model"}, {"id": "second"}]}
        yield json_answer(models if asked.path == "/v1/models" else {"count": 2, "tokens": [5, 9]})

    async with scripted(script) as server:
        client = Server(Address.parse(server.url), 10.0)
        assert await client.first_model() == "first"
        assert await client.tokenize("first", "some text") == [5, 9]
        assert await client.tokenize("first", [{"role": "user", "content": "hi"}]) == [5, 9]

    assert server.asked[1].body == {"model": "first", "prompt": "some text"}
    assert server.asked[2].body == {"model": "first", "messages": [{"role": "user", "content": "hi"}]}


async def test_a_tokenizer_that_wants_its_text_as_content_gets_it_so() -> None:
    async def script(asked: Asked) -> AsyncIterator[bytes]:
        yield json_answer({"tokens": [5, 9] if "content" in asked.body else []})

    async with scripted(script) as server:
        client = Server(Address.parse(server.url), 10.0)
        assert await client.tokenize("m", "some text") == [5, 9]
        with pytest.raises(WireError, match="finds no tokens"):
            await client.tokenize("m", [{"role": "user", "content": "hi"}])

    assert server.asked[1].body == {"content": "some text", "add_special": True}


@pytest.mark.parametrize("answer", [{"data": []}, {"models": []}, [1], "x"])
async def test_an_answer_of_another_shape_is_garbage(answer: object) -> None:
    async with scripted(always(json_answer(answer))) as server:
        with pytest.raises(WireError, match=r"unexpected shape|no model") as caught:
            await Server(Address.parse(server.url), 10.0).first_model()

    assert caught.value.kind == "garbage"
