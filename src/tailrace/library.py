"""Tailrace as a library: one `Engine`, blocking, streaming or async. The same engine as the server's, in process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from uuid import uuid4

from tailrace.app import LoadedModel, build_service, load_model, model_card, start_engine
from tailrace.config import EngineConfig
from tailrace.engine.local import LocalEngine
from tailrace.errors import EngineError
from tailrace.service.api import ChatPrompt, ChoiceDelta, Generation, GenerationStream, Prompt, TextPrompt, Usage
from tailrace.types import FinishReason, SamplingParams
from tailrace.weights.load import open_checkpoint

__all__ = ["Completion", "Engine", "TextStream"]

_Result = TypeVar("_Result")

PromptLike = str | Sequence[Mapping[str, Any]]  # text to continue, or chat messages


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage


class TextStream:
    """Iterates over pieces of text as they are computed. `usage` and `finish_reason` are final once it has ended."""

    def __init__(self, engine: "Engine", stream: GenerationStream) -> None:
        self._engine = engine
        self._stream = stream
        self._deltas = aiter(stream)
        self.finish_reason: FinishReason | None = None

    @property
    def usage(self) -> Usage:
        return self._stream.usage

    def __iter__(self) -> Iterator[str]:
        while (delta := self._engine._run(self._next())) is not None:
            if delta.text:
                yield delta.text

    async def __aiter__(self) -> AsyncIterator[str]:
        while (delta := await self._engine._arun(self._next())) is not None:
            if delta.text:
                yield delta.text

    def close(self) -> None:
        """Stop computing."""
        self._engine._run(self._stream.aclose())

    async def _next(self) -> ChoiceDelta | None:
        delta = await anext(self._deltas, None)
        if delta is not None:
            if delta.error is not None:
                raise EngineError(delta.error)
            self.finish_reason = delta.finish_reason or self.finish_reason
        return delta


class Engine:
    """A loaded model. Close it, or use it as a context manager.

    `model`: a GGUF file, a Hugging Face directory, a hub id; None is the embedded default model.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        quantize: Literal["int8", "int4"] | None = None,
        config: EngineConfig | None = None,
    ) -> None:
        config = config or EngineConfig()
        checkpoint = open_checkpoint(model, quantize=quantize)
        loaded = load_model(checkpoint, config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tailrace-library", daemon=True)
        self._thread.start()
        self._engine = self._run(_start(loaded, config))
        self._service = build_service(checkpoint, self._engine, model_card(checkpoint, config))
        self._executable = loaded.executable

    def generate(self, prompts: str | Sequence[PromptLike], **options: Any) -> list[Completion]:
        """Answer one text, or each of several prompts, batched. Options: see `stream`."""
        batch: Sequence[PromptLike] = [prompts] if isinstance(prompts, str) else prompts
        return self._run(self._generate([_generation(prompt, **options) for prompt in batch]))

    def stream(self, prompt: PromptLike, **options: Any) -> TextStream:
        """Start one answer. `prompt` is text, or a list of chat messages.

        Options: `stop` and the fields of `SamplingParams`, e.g. `max_tokens=64, temperature=0.0, seed=1, stop=["."]`.
        Raises InvalidRequest, ContextTooLong, Overloaded.
        """
        return TextStream(self, self._run(self._service.start(_generation(prompt, **options))))

    async def astream(self, prompt: PromptLike, **options: Any) -> TextStream:
        """As `stream`, for `async for`."""
        return TextStream(self, await self._arun(self._service.start(_generation(prompt, **options))))

    def close(self) -> None:
        """Stop the engine and free its memory."""
        if self._loop.is_closed():
            return
        self._engine.close()
        self._executable.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _generate(self, generations: Sequence[Generation]) -> list[Completion]:
        streams = [await self._service.start(generation) for generation in generations]
        return list(await asyncio.gather(*map(_collect, streams)))

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def _collect(stream: GenerationStream) -> Completion:
    deltas = [delta async for delta in stream]
    last = deltas[-1]
    if last.error is not None or last.finish_reason is None:
        raise EngineError(last.error or "the engine ended the stream without a reason")
    return Completion(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        finish_reason=last.finish_reason,
        usage=stream.usage,
    )


def _generation(
    prompt: PromptLike, *, stop: str | Sequence[str] = (), seed: int | None = None, max_tokens: int = 0, **sampling: Any
) -> Generation:
    kind: Prompt = TextPrompt(prompt) if isinstance(prompt, str) else ChatPrompt(prompt)
    return Generation(
        request_id=uuid4().hex,
        prompt=kind,
        sampling=SamplingParams(max_tokens=max_tokens, **sampling),
        seed=seed,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )


async def _start(model: LoadedModel, config: EngineConfig) -> LocalEngine:
    return start_engine(model, config, emit=lambda _record: None, on_failure=lambda: None)
