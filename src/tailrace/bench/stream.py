"""What a stream of completion chunks brings, and when: the one place that knows how a chunk looks on the wire."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from tailrace.bench.exchange import WireError
from tailrace.bench.pieces import CallPiece, Piece, PieceSink
from tailrace.bench.sse import EventParser

__all__ = ["StreamRecorder", "Streamed"]


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None

    def piece(self) -> CallPiece:
        function = self.function or _Function()
        return CallPiece(self.index, self.id or "", function.name or "", function.arguments or "")


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    def piece(self) -> Piece:
        delta = self.delta
        if delta is None:
            return Piece(self.text or "")
        reasoning = delta.reasoning_content or delta.reasoning or ""
        return Piece(delta.content or "", reasoning, tuple([call.piece() for call in delta.tool_calls or ()]))


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's name for it


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


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


class StreamRecorder:
    """The body sink of one stream: times every chunk with output, keeps the usage, ends at `[DONE]`."""

    def __init__(self, streamed: Streamed, on_piece: PieceSink) -> None:
        self._streamed = streamed
        self._on_piece = on_piece
        self._parser = EventParser()
        self._is_done = False
        self._last_choice_s = 0.0

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
        if not streamed.chunk_s and (streamed.output_tokens or 0) > 0 and self._last_choice_s > 0:
            streamed.chunk_s.append(self._last_choice_s)  # tokens that decode to nothing: by then they were there
        if not streamed.chunk_s:
            raise WireError("empty", "the stream carried no output")

    def _take(self, chunk: _Chunk, now_s: float) -> None:
        if chunk.error:
            raise WireError("server_error", f"the server broke off the stream: {chunk.error}"[:500])
        if chunk.usage is not None:
            self._take_usage(chunk.usage)
        for choice in chunk.choices:
            self._take_choice(choice, now_s)
            self._last_choice_s = now_s

    def _take_usage(self, usage: _Usage) -> None:
        streamed = self._streamed
        streamed.prompt_tokens = usage.prompt_tokens
        streamed.output_tokens = usage.completion_tokens
        details = usage.prompt_tokens_details
        streamed.cached_tokens = usage.prompt_cache_hit_tokens if details is None else details.cached_tokens

    def _take_choice(self, choice: _Choice, now_s: float) -> None:
        piece = choice.piece()
        if any(piece):
            self._streamed.chunk_s.append(now_s)
            self._on_piece(piece)
        if choice.finish_reason is not None:
            self._streamed.finish_reason = choice.finish_reason


def _parse_chunk(event: bytes) -> _Chunk:
    try:
        return _decode_chunk(event)
    except (msgspec.DecodeError, RecursionError) as error:
        shown = event[:80].decode("utf-8", "replace")
        raise WireError("garbage", f"an event is not a completion chunk ({error}): {shown!r}") from error
