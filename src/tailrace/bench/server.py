"""An OpenAI-compatible server as its clients see it: models, token counts, streams of text.

The wire format stays in here; what comes out is plain data.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from tailrace.bench.exchange import Address, BodySink, Exchanged, HttpError, HttpRequest, WireError, exchange
from tailrace.bench.pieces import Piece, PieceSink
from tailrace.bench.stream import Streamed, StreamRecorder

__all__ = ["Endpoint", "Message", "Prompt", "Server", "StreamRequest"]

MAX_BODY_BYTES = 1 << 26

Endpoint = Literal["chat", "completions"]
Message = dict[str, Any]
Prompt = str | Sequence[Message]
"""Text for the completions endpoint, messages for chat."""

_Answer = TypeVar("_Answer")


def _ignore(_piece: Piece) -> None:
    pass


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Tokens(msgspec.Struct):
    tokens: list[int]


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

    async def stream(self, request: StreamRequest, on_piece: PieceSink = _ignore) -> Streamed:
        """Stream one answer. A failure is part of the result: the caller counts it."""
        streamed = Streamed(sent_s=time.perf_counter())
        recorder = StreamRecorder(streamed, on_piece)
        try:
            post = HttpRequest("POST", request.path, request.body())
            times = await self._exchange(post, recorder)
            streamed.connect_s, streamed.sent_s, streamed.ended_s = times.connect_s, times.sent_s, times.ended_s
            recorder.close()
        except WireError as error:
            streamed.error_kind, streamed.error = error.kind, str(error)
            streamed.ended_s = streamed.ended_s or time.perf_counter()
        return streamed

    async def get(self, path: str) -> bytes:
        """What is there. Raises WireError."""
        return await self._fetch(HttpRequest("GET", path))

    async def _fetch(self, request: HttpRequest) -> bytes:
        collector = _Collector()
        await self._exchange(request, collector)
        return bytes(collector.body)

    async def _exchange(self, request: HttpRequest, sink: BodySink) -> Exchanged:
        try:
            return await exchange(self.address, request, sink, self.timeout_s)
        except HttpError as error:
            raise HttpError(error.status, _message_of(error.said)) from error


def _message_of(said: str) -> str:
    """The message in an error body, in whichever of the usual forms; the body itself where there is none."""
    try:
        said_here = msgspec.json.decode(said)
        while isinstance(said_here, dict):
            said_here = next(said_here[key] for key in ("error", "message", "detail") if key in said_here)
    except (msgspec.DecodeError, RecursionError, StopIteration):
        return said
    return said_here if isinstance(said_here, str) else said


def _decode(body: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WireError("garbage", f"the answer has an unexpected shape: {error}") from error
