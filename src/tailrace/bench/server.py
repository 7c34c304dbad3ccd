"""An OpenAI-compatible server as its clients see it: models, token counts, streams of text.

The wire format stays in here; what comes out is plain data.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from tailrace.bench.exchange import Address, HttpRequest, WireError, exchange
from tailrace.bench.sse import EventParser

__all__ = ["Endpoint", "Message", "Prompt", "Server", "StreamRequest", "Streamed", "TextSink"]

MAX_BODY_BYTES = 1 << 26

Endpoint = Literal["chat", "completions"]
Message = dict[str, Any]
Prompt = str | Sequence[Message]
"""Text for the completions endpoint, messages for chat."""

TextSink = Callable[[str], None]
_Answer = TypeVar("_Answer")


def _ignore(_text: str) -> None:
    pass


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Tokens(msgspec.Struct):
    tokens: list[int]


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """One answer to ask for; `extra` is merged into the body as it is (sampling settings and the like)."""

    model: str
    prompt: Prompt
    max_tokens: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/v1/completions" if isinstance(self.prompt, str) else "/v1/chat/completions"

    def body(self) -> bytes:
        prompt = {"prompt": self.prompt} if isinstance(self.prompt, str) else {"messages": self.prompt}
        bound = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return msgspec.json.encode({"model": self.model, **prompt, **bound, **stream, **self.extra})


@dataclass(slots=True)
class Streamed:
    """What one stream brought and when: monotonic seconds, and the server's own token counts (None if it gave none)."""

    connect_s: float = 0.0
    sent_s: float = 0.0
    chunk_s: list[float] = field(default_factory=list)  # arrival of each chunk that carries output
    ended_s: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error_kind: str | None = None
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.error_kind is None


class _Recorder:
    """The body sink of one stream: times every chunk with output, keeps the usage, ends at `[DONE]`."""

    def __init__(self, streamed: Streamed, on_text: TextSink) -> None:
        self._streamed = streamed
        self._on_text = on_text
        self._parser = EventParser()
        self._is_done = False
        self._finish_s = 0.0

    def __call__(self, body: bytes, now_s: float) -> bool:
        for event in self._parser.feed(body):
            if event == b"[DONE]":
                self._is_done = True
                break
            self._take(_parse_chunk(event), now_s)
        return self._is_done

    def close(self) -> None:
        """Decide whether the stream was whole. Raises WireError if not."""
        streamed = self._streamed
        if not self._is_done and streamed.finish_reason is None:
            raise WireError("disconnect", "the stream ended without [DONE] and without a finish_reason")
        if not streamed.chunk_s and (streamed.output_tokens or 0) > 0:
            streamed.chunk_s.append(self._finish_s)  # tokens that decode to nothing: they were there when it finished
        if not streamed.chunk_s:
            raise WireError("empty", "the stream carried no output")

    def _take(self, chunk: _Chunk, now_s: float) -> None:
        if chunk.error:
            raise WireError("server_error", f"the server broke off the stream: {chunk.error}"[:500])
        if chunk.usage is not None:
            self._take_usage(chunk.usage)
        for choice in chunk.choices:
            self._take_choice(choice, now_s)

    def _take_usage(self, usage: _Usage) -> None:
        streamed = self._streamed
        streamed.prompt_tokens = usage.prompt_tokens
        streamed.output_tokens = usage.completion_tokens
        if usage.prompt_tokens_details is not None:
            streamed.cached_tokens = usage.prompt_tokens_details.cached_tokens

    def _take_choice(self, choice: _Choice, now_s: float) -> None:
        text, has_output = _output_of(choice)
        if has_output:
            self._streamed.chunk_s.append(now_s)
        if text:
            self._on_text(text)
        if choice.finish_reason is not None:
            self._streamed.finish_reason = choice.finish_reason
            self._finish_s = now_s


def _output_of(choice: _Choice) -> tuple[str, bool]:
    """The text of a chunk, and whether it carries output at all (tool calls do, without text)."""
    delta = choice.delta
    if delta is None:
        return choice.text or "", bool(choice.text)
    text = (delta.reasoning_content or delta.reasoning or "") + (delta.content or "")
    return text, bool(text or delta.tool_calls)


def _parse_chunk(event: bytes) -> _Chunk:
    try:
        return _decode_chunk(event)
    except (msgspec.DecodeError, RecursionError) as error:
        shown = event[:80].decode("utf-8", "replace")
        raise WireError("garbage", f"an event is not a completion chunk ({error}): {shown!r}") from error


class _Collector:
    """The body sink of an answer that is wanted whole."""

    def __init__(self) -> None:
        self.body = bytearray()

    def __call__(self, body: bytes, _now_s: float) -> bool:
        self.body += body
        if len(self.body) > MAX_BODY_BYTES:
            raise WireError("garbage", f"an answer is longer than {MAX_BODY_BYTES >> 20} MiB")
        return False


@dataclass(frozen=True, slots=True)
class Server:
    """A server at an address. Every call opens a connection of its own and takes at most `timeout_s`."""

    address: Address
    timeout_s: float = 600.0

    async def first_model(self) -> str:
        """The name of the first model served. Raises WireError."""
        models = _decode(await self._fetch(HttpRequest("GET", "/v1/models")), _Models)
        if not models.data:
            raise WireError("garbage", "the server lists no model")
        return models.data[0].id

    async def tokenize(self, model: str, prompt: Prompt) -> list[int]:
        """The token ids the server makes of a prompt, template included. Raises WireError where it cannot tell."""
        if isinstance(prompt, str):
            # llama.cpp finds no text in the first form, and answers with no tokens.
            forms = [{"model": model, "prompt": prompt}, {"content": prompt, "add_special": True}]
        else:
            forms = [{"model": model, "messages": prompt}]
        for form in forms:
            body = await self._fetch(HttpRequest("POST", "/tokenize", msgspec.json.encode(form)))
            if tokens := _decode(body, _Tokens).tokens:
                return tokens
        raise WireError("garbage", "the server finds no tokens in a prompt")

    async def stream(self, request: StreamRequest, on_text: TextSink = _ignore) -> Streamed:
        """Stream one answer. A failure is part of the result: the caller counts it."""
        streamed = Streamed(sent_s=time.perf_counter())
        recorder = _Recorder(streamed, on_text)
        try:
            post = HttpRequest("POST", request.path, request.body())
            times = await exchange(self.address, post, recorder, self.timeout_s)
            streamed.connect_s, streamed.sent_s, streamed.ended_s = times.connect_s, times.sent_s, times.ended_s
            recorder.close()
        except WireError as error:
            streamed.error_kind, streamed.error = error.kind, str(error)
            streamed.ended_s = streamed.ended_s or time.perf_counter()
        return streamed

    async def _fetch(self, request: HttpRequest) -> bytes:
        collector = _Collector()
        await exchange(self.address, request, collector, self.timeout_s)
        return bytes(collector.body)


def _decode(body: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError("garbage", f"the answer has an unexpected shape: {error}") from error
