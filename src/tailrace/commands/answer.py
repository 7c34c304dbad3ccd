"""Where `chat` and `complete` get their answers: from a server over the wire, or from an engine in this process."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import tailrace
from tailrace.bench.pieces import CallPiece, Piece, PieceSink
from tailrace.commands.download import fetch_default_model
from tailrace.commands.spoken import Call, Spoken
from tailrace.commands.waiting import waiting
from tailrace.config import EngineConfig, LazyExperts
from tailrace.errors import EngineError, SetupError
from tailrace.weights.precision import Precision

if TYPE_CHECKING:
    from tailrace.bench.server import Prompt, Server

__all__ = ["Answer", "Answerer", "Sampling", "open_answerer"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is asked for besides the prompt; None leaves it to the model's server."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    suffix: str | None = None  # a text that comes behind the answer
    tools: Sequence[Any] | None = None  # as the API has them
    tool_choice: Any = None
    thinking: bool | None = None
    schema: Any = None  # a JSON schema that the answer follows

    def given(self) -> dict[str, Any]:
        """Those that were given, by the names that server and library share."""
        fields = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "suffix": self.suffix,
            "tools": self.tools,
            "tool_choice": self.tool_choice,
            "thinking": None if self.thinking is None else {"type": "enabled" if self.thinking else "disabled"},
            "response_format": None if self.schema is None else _response_format(self.schema),
        }
        return {name: value for name, value in fields.items() if value is not None}


def _response_format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer and how fast it came. Counts are None where the server told none."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    ttft_s: float
    decode_s: float  # from the first piece of output to the last
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens a second behind the first."""
        if self.output_tokens is None or self.output_tokens < 2 or self.decode_s <= 0:
            return None
        return (self.output_tokens - 1) / self.decode_s

    def summary(self) -> str:
        """One line on how fast it came and what it cost."""
        speed = "" if self.tokens_per_s is None else f", {self.tokens_per_s:.1f} tok/s"
        cached = "" if self.cached_tokens is None else f" ({self.cached_tokens} cached)"
        cost = (
            "" if self.prompt_tokens is None else f", {self.prompt_tokens} tokens in{cached}, {self.output_tokens} out"
        )
        return f"TTFT {self.ttft_s * 1e3:.0f} ms{speed}{cost}"


class Answerer(Protocol):
    def answer(self, prompt: "Prompt", sampling: Sampling, on_piece: PieceSink) -> Answer:
        """Stream one answer. Raises TailraceError; KeyboardInterrupt stops the work first."""
        ...


class _Remote:
    """A model behind a server."""

    def __init__(self, server: "Server", model: str | None) -> None:
        self._server = server
        self._model = model or _first_model(server)

    def answer(self, prompt: "Prompt", sampling: Sampling, on_piece: PieceSink) -> Answer:
        from tailrace.bench.server import StreamRequest  # noqa: PLC0415  (see _remote)

        spoken = Spoken()

        def take(piece: Piece) -> None:
            spoken.add(piece)
            on_piece(piece)

        request = StreamRequest(self._model, prompt, sampling.max_tokens, sampling.given())
        streamed = asyncio.run(self._server.stream(request, take))
        if streamed.error_kind == "empty":  # not wrong here: a model may have nothing to say
            streamed.chunk_s.append(streamed.ended_s)
        elif not streamed.is_ok:
            raise EngineError(f"{self._server.address.url}: {streamed.error}")
        return Answer(
            text=spoken.text,
            finish_reason=streamed.finish_reason,
            prompt_tokens=streamed.prompt_tokens,
            output_tokens=streamed.output_tokens,
            cached_tokens=streamed.cached_tokens,
            ttft_s=streamed.chunk_s[0] - streamed.sent_s,
            decode_s=streamed.chunk_s[-1] - streamed.chunk_s[0],
            reasoning=spoken.reasoning,
            calls=spoken.calls,
        )


class _Local:
    """A model in this process."""

    def __init__(self, engine: "tailrace.Engine") -> None:
        self._engine = engine

    def answer(self, prompt: "Prompt", sampling: Sampling, on_piece: PieceSink) -> Answer:
        sent_s = time.perf_counter()
        stream = self._engine.stream(prompt, max_tokens=sampling.max_tokens or 0, **sampling.given())
        spoken = Spoken()
        times_s: list[float] = []
        try:
            for delta in stream.deltas():
                calls = [CallPiece(call.index, call.call_id, call.name, call.arguments) for call in delta.calls]
                piece = Piece(delta.text, delta.reasoning, tuple(calls))
                if any(piece):
                    times_s.append(time.perf_counter())
                    spoken.add(piece)
                    on_piece(piece)
        finally:
            stream.close()
        times_s = times_s or [time.perf_counter()]
        return Answer(
            text=spoken.text,
            finish_reason=stream.finish_reason,
            prompt_tokens=stream.usage.prompt_tokens,
            output_tokens=stream.usage.completion_tokens,
            cached_tokens=stream.usage.cached_tokens,
            ttft_s=times_s[0] - sent_s,
            decode_s=times_s[-1] - times_s[0],
            reasoning=spoken.reasoning,
            calls=spoken.calls,
        )


@contextmanager
def open_answerer(
    model: str | None,
    url: str | None,
    api_key: str | None,
    quantize: Precision | None = None,
    lazy_experts: LazyExperts = None,
) -> Iterator[Answerer]:
    """A server's model where there is a URL, else a model loaded here. Raises TailraceError."""
    if url is not None:
        if quantize is not None:
            raise SetupError("--quantize is of a model that is loaded here: the server at --url has loaded its own")
        if lazy_experts is not None:
            raise SetupError("--lazy-experts is of a model that is loaded here: give it to the server at --url")
        yield _remote(url, api_key, model)
        return
    fetch_default_model(model)
    with waiting("Loading the model"):
        engine = tailrace.Engine(model, quantize=quantize, config=EngineConfig(lazy_experts=lazy_experts))
    with engine:
        yield _Local(engine)


def _remote(url: str, api_key: str | None, model: str | None) -> _Remote:
    # Only who asks a server needs the wire: a model that is loaded here would start later for it.
    from tailrace.bench.exchange import Address  # noqa: PLC0415
    from tailrace.bench.server import Server  # noqa: PLC0415

    return _Remote(Server(Address.parse(url, api_key)), model)


def _first_model(server: "Server") -> str:
    from tailrace.bench.exchange import WireError  # noqa: PLC0415  (see _remote)

    try:
        return asyncio.run(server.first_model())
    except WireError as error:
        raise SetupError(f"no model found at {server.address.url}: {error}; is the server up?") from error
