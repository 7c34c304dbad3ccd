import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

import tailrace
from tailrace.bench.pieces import CallPiece, Piece
from tailrace.bench.server import Prompt
from tailrace.commands import answer as answers
from tailrace.commands.answer import Answer, Sampling, open_answerer
from tailrace.commands.spoken import Call
from tailrace.errors import EngineError, SetupError
from tailrace.service.api import ChoiceDelta, Usage
from tailrace.types import FinishReason
from tailrace.weights.precision import Precision
from tests.unit.bench.scripted import (
    Asked,
    Script,
    chat_chunk,
    event,
    head,
    json_answer,
    scripted,
    usage_chunk,
)

HELLO: Prompt = [{"role": "user", "content": "hello"}]
ANSWER = Answer("ab", "stop", prompt_tokens=7, output_tokens=5, cached_tokens=4, ttft_s=0.0834, decode_s=0.5)

TOOLED = Sampling(
    tools=[{"type": "function", "function": {"name": "get_weather"}}], thinking=True, schema={"type": "object"}
)


class FakeStream:
    finish_reason = FinishReason.LENGTH
    usage = Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=4)

    def __init__(self, texts: list[str | BaseException]) -> None:
        self._texts = texts
        self.is_closed = False

    def deltas(self) -> Iterator[ChoiceDelta]:
        for text in self._texts:
            if isinstance(text, BaseException):
                raise text
            yield ChoiceDelta(0, text)

    def close(self) -> None:
        self.is_closed = True


class FakeEngine:
    """Stands for the library's Engine: streams what it was told to, and keeps what it was asked."""

    def __init__(self, model: str | None = None) -> None:
        self.model = model
        self.texts: list[str | BaseException] = ["Once ", "upon"]
        self.asked: list[tuple[Prompt, dict[str, Any]]] = []
        self.streams: list[FakeStream] = []
        self.is_closed = False

    def stream(self, prompt: Prompt, **options: Any) -> FakeStream:
        self.asked.append((prompt, options))
        self.streams.append(FakeStream(self.texts))
        return self.streams[-1]

    def __enter__(self) -> "FakeEngine":
        return self

    def __exit__(self, *_error: object) -> None:
        self.is_closed = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr(tailrace, "Engine", lambda _model, quantize, config: engine, raising=False)
    monkeypatch.setattr(answers, "fetch_default_model", lambda _model: None)
    return engine


def ask_local(sampling: Sampling) -> tuple[Answer, list[str]]:
    texts: list[str] = []

    def take(piece: Piece) -> None:
        texts.append(piece.text)

    with open_answerer(None, None, None) as answerer:
        return answerer.answer(HELLO, sampling, take), texts


def test_a_model_in_this_process_streams_text_and_tells_its_counts(engine: FakeEngine) -> None:
    answer, texts = ask_local(Sampling(max_tokens=5, temperature=0.0, seed=3))

    assert texts == ["Once ", "upon"]
    assert (answer.text, answer.finish_reason) == ("Once upon", "length")
    assert (answer.prompt_tokens, answer.output_tokens, answer.cached_tokens) == (7, 3, 4)
    assert answer.ttft_s > 0
    assert answer.decode_s > 0
    assert engine.asked == [(HELLO, {"max_tokens": 5, "temperature": 0.0, "seed": 3})]
    assert engine.is_closed


def test_a_model_of_a_server_is_not_narrowed_here() -> None:
    with (
        pytest.raises(SetupError, match=r"--quantize is of a model that is loaded here"),
        open_answerer(None, "http://127.0.0.1:1", None, Precision.parse("int8")),
    ):
        pass


def test_experts_of_a_server_are_not_loaded_here() -> None:
    with (
        pytest.raises(SetupError, match=r"--lazy-experts is of a model that is loaded here"),
        open_answerer(None, "http://127.0.0.1:1", None, lazy_experts="auto"),
    ):
        pass


def test_an_answer_without_text_is_an_answer(engine: FakeEngine) -> None:
    engine.texts = []

    answer, texts = ask_local(Sampling())

    assert (answer.text, texts, answer.decode_s) == ("", [], 0)


def test_ctrl_c_stops_the_work_in_this_process(engine: FakeEngine) -> None:
    engine.texts = ["Once ", KeyboardInterrupt()]

    with pytest.raises(KeyboardInterrupt):
        ask_local(Sampling())

    assert engine.streams[0].is_closed


def serving(*pieces: bytes) -> Script:
    async def script(asked: Asked) -> AsyncIterator[bytes]:
        if asked.path == "/v1/models":
            yield json_answer({"data": [{"id": "first"}]})
            return
        for piece in pieces:
            yield piece

    return script


def ask_remote(url: str, model: str | None = None) -> tuple[Answer, list[str]]:
    texts: list[str] = []

    def take(piece: Piece) -> None:
        texts.append(piece.text)

    with open_answerer(model, url, "secret") as answerer:
        return answerer.answer(HELLO, Sampling(max_tokens=5, top_p=0.9), take), texts


async def test_a_server_streams_text_and_tells_its_counts() -> None:
    chunks = chat_chunk({"content": "Once "}), chat_chunk({"content": "upon"}, "length"), usage_chunk(7, 3, 4)
    async with scripted(serving(head(), *chunks, event("[DONE]"))) as server:
        answer, texts = await asyncio.to_thread(ask_remote, server.url)

    assert texts == ["Once ", "upon"]
    assert (answer.text, answer.finish_reason) == ("Once upon", "length")
    assert (answer.prompt_tokens, answer.output_tokens, answer.cached_tokens) == (7, 3, 4)
    asked = server.asked[-1]
    assert asked.headers["authorization"] == "Bearer secret"
    assert {name: asked.body[name] for name in ("model", "messages", "max_tokens", "top_p")} == {
        "model": "first",
        "messages": HELLO,
        "max_tokens": 5,
        "top_p": 0.9,
    }
    assert "temperature" not in asked.body, "what was not given is the server's to choose"


async def test_a_named_model_is_asked_for_without_looking_at_the_list() -> None:
    async with scripted(serving(head(), chat_chunk({"content": "x"}, "stop"))) as server:
        await asyncio.to_thread(ask_remote, server.url, "second")

    assert [(asked.path, asked.body["model"]) for asked in server.asked] == [("/v1/chat/completions", "second")]


async def test_a_server_with_nothing_to_say_is_no_failure() -> None:
    async with scripted(serving(head(), chat_chunk({}, "stop"), usage_chunk(7, 0), event("[DONE]"))) as server:
        answer, texts = await asyncio.to_thread(ask_remote, server.url)

    assert (answer.text, answer.output_tokens, texts) == ("", 0, [])


async def test_thoughts_and_calls_of_a_server_are_put_together() -> None:
    named = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    chunks = (
        chat_chunk({"reasoning_content": "hm, ", "reasoning": "hm, "}),
        chat_chunk({"tool_calls": [named]}),
        chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]}),
        chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "Rome"}'}}]}, "tool_calls"),
    )
    pieces: list[Piece] = []

    def ask(url: str) -> Answer:
        with open_answerer(None, url, None) as answerer:
            return answerer.answer(HELLO, TOOLED, pieces.append)

    async with scripted(serving(head(), *chunks, event("[DONE]"))) as server:
        answer = await asyncio.to_thread(ask, server.url)

    assert (answer.text, answer.reasoning, answer.finish_reason) == ("", "hm, ", "tool_calls")
    assert answer.calls == [Call("call_1", "get_weather", '{"city": "Rome"}')]
    assert pieces[1] == Piece(calls=(CallPiece(0, "call_1", "get_weather"),))
    asked = server.asked[-1].body
    assert asked["tools"] == TOOLED.tools
    assert asked["thinking"] == {"type": "enabled"}
    assert asked["response_format"]["json_schema"]["schema"] == {"type": "object"}


async def test_a_servers_refusal_is_passed_on_with_its_address() -> None:
    async with scripted(serving(json_answer({"error": {"message": "too long"}}, 400))) as server:
        with pytest.raises(EngineError, match=r"http://127\.0\.0\.1.*too long"):
            await asyncio.to_thread(ask_remote, server.url)


async def test_an_absent_server_is_a_setup_error() -> None:
    async with scripted(serving()) as server:
        pass

    with pytest.raises(SetupError, match=r"is the server up\?"):
        await asyncio.to_thread(ask_remote, server.url)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ANSWER, "TTFT 83 ms, 8.0 tok/s, 7 tokens in (4 cached), 5 out"),
        (replace(ANSWER, cached_tokens=None), "TTFT 83 ms, 8.0 tok/s, 7 tokens in, 5 out"),
        (replace(ANSWER, output_tokens=1), "TTFT 83 ms, 7 tokens in (4 cached), 1 out"),
        (replace(ANSWER, decode_s=0.0), "TTFT 83 ms, 7 tokens in (4 cached), 5 out"),
        (replace(ANSWER, prompt_tokens=None, output_tokens=None, cached_tokens=None), "TTFT 83 ms"),
    ],
)
def test_the_summary_says_what_is_known(answer: Answer, expected: str) -> None:
    assert answer.summary() == expected
