"""Tailrace as a library: one `Engine`, blocking, streaming or async. The same engine as the server's, in process."""

import asyncio
import atexit
import math
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from tailrace.app import LoadedModel, build_service, load_model, read_texts, start_engine
from tailrace.client.generation import generation_of
from tailrace.client.options import Call, Completion, Options, PromptLike, is_prompt
from tailrace.client.said import Said, completion_of
from tailrace.client.together import together
from tailrace.config import ChatFormatName, EngineConfig
from tailrace.engine.local import LocalEngine
from tailrace.errors import EngineError
from tailrace.levels.config import LevelsConfig
from tailrace.loop_thread import LoopClosed, LoopThread
from tailrace.records import ResidencyCounts
from tailrace.service.api import (
    ChoiceDelta,
    Generation,
    GenerationStream,
    Usage,
)
from tailrace.types import FinishReason
from tailrace.weights.load import open_checkpoint
from tailrace.weights.packed_cache import PackedCache
from tailrace.weights.precision import Precision, Quantize

__all__ = ["Call", "Completion", "Engine", "Options", "TextStream"]

_Result = TypeVar("_Result")

_CLOSED = "this engine is closed: make another"
_SETTLE_S = 10.0  # for answers under way to end when the engine is closed


class TextStream:
    """Iterates over pieces of text as they are computed. `usage` and `finish_reason` are final once it has ended.

    `reasoning` and `calls` are what the answer has besides its text, as far as it has been read; to see them while they
    come, read `deltas` or `adeltas`. Leaving the iteration stops the work; so does `close`, or `aclose` in a coroutine.
    """

    def __init__(self, engine: "Engine", stream: GenerationStream) -> None:
        self._engine = engine
        self._stream = stream
        self._deltas = aiter(stream)
        self._said = Said()
        self.finish_reason: FinishReason | None = None

    @property
    def usage(self) -> Usage:
        return self._stream.usage

    @property
    def reasoning(self) -> str:
        """So far."""
        return self._said.reasoning

    @property
    def calls(self) -> tuple[Call, ...]:
        """So far, the last perhaps not whole."""
        return self._said.calls

    def __iter__(self) -> Iterator[str]:
        with closing(self.deltas()) as deltas:
            for delta in deltas:
                if delta.text:
                    yield delta.text

    async def __aiter__(self) -> AsyncIterator[str]:
        async with aclosing(self.adeltas()) as deltas:
            async for delta in deltas:
                if delta.text:
                    yield delta.text

    def deltas(self) -> Generator[ChoiceDelta, None, None]:
        """All that the answer is made of: reasoning and calls of tools, too, and token ids."""
        try:
            while (delta := self._engine._run(self._next())) is not None:
                yield delta
        finally:
            self.close()

    async def adeltas(self) -> AsyncGenerator[ChoiceDelta, None]:
        """As `deltas`, for `async for`."""
        try:
            while (delta := await self._engine._arun(self._next())) is not None:
                yield delta
        finally:
            await self.aclose()

    def close(self) -> None:
        """Stop computing. Harmless when it has ended, or the engine has."""
        with suppress(EngineError):
            self._engine._run(self._stream.aclose())

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        with suppress(EngineError):
            await self._engine._arun(self._stream.aclose())

    async def _next(self) -> ChoiceDelta | None:
        delta = await anext(self._deltas, None)
        if delta is not None:
            if delta.error is not None:
                raise EngineError(delta.error)
            self.finish_reason = delta.finish_reason or self.finish_reason
            if delta.reasoning or delta.calls:
                self._said.add(delta.reasoning, delta.calls)
        return delta


class Engine:
    """A loaded model. Close it, or use it as a context manager; what is left open is closed when the program ends.

    `model`: a GGUF file, a Hugging Face directory, a hub id or tiny-deepseek; None is the embedded default model.
    `quantize`: how wide weights are kept, in the words of `tailrace serve --quantize`: "int4,head=int8,kv=int8".
    `levels`: where keys and values are kept besides its own memory; nowhere unless asked for.
    `chat_format`: how conversations are written, as for `tailrace serve --chat-format`.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        quantize: Quantize = None,
        config: EngineConfig | None = None,
        levels: LevelsConfig | None = None,
        chat_format: ChatFormatName = "auto",
    ) -> None:
        config = config or EngineConfig()
        precision = Precision.of(quantize)
        kv_cache_dtype = precision.settle_kv(config.kv_cache_dtype)
        config = replace(config, classes=config.classes.patient, kv_cache_dtype=kv_cache_dtype)
        checkpoint = open_checkpoint(model, quantize=precision)
        with ThreadPoolExecutor(1, "tailrace-texts") as beside:
            texts = beside.submit(read_texts, checkpoint, chat_format)
            loaded = load_model(checkpoint, config, cache=PackedCache.of_user())
        self._loop = LoopThread("tailrace-library")
        self._executable = loaded.executable
        self._engine = self._run(_start(loaded, config, levels or LevelsConfig()))
        card = loaded.plan.card()
        self._service = build_service(
            checkpoint, self._engine, card, classes=lambda: config.classes, texts=texts.result()
        )
        # A batch of any size waits its turn, with as many at once as there is room for in any class.
        self._room = asyncio.Semaphore(max(config.max_queued // 2, 1))
        atexit.register(self.close)

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closing

    @property
    def num_requests(self) -> int:
        """Answers that are being computed or wait for their turn."""
        return self._engine.num_requests

    def expert_residency(self) -> ResidencyCounts | None:
        """With `lazy_experts`, what became of experts so far: hits, misses, memory. None where all are loaded."""
        resident = self._executable.resident_experts
        return None if resident is None else resident.counts()

    def generate(self, prompts: PromptLike | Sequence[PromptLike], **options: Unpack[Options]) -> list[Completion]:
        """Answer one prompt, or each of several, batched; they come back in order. Options: see `stream`.

        Nothing is promised about when: a batch of any size waits for as long as it takes.
        """
        batch = [prompts] if is_prompt(prompts) else prompts
        return self._run(self._generate([_unhurried(generation_of(prompt, options)) for prompt in batch]))

    def stream(self, prompt: PromptLike, **options: Unpack[Options]) -> TextStream:
        """Start one answer. `prompt` is text, or a list of chat messages.

        Options: e.g. `max_tokens=64, temperature=0.0, seed=1, stop=["."]`; all are listed in `Options`.
        Raises InvalidRequest, ContextTooLong, Overloaded; EngineError when the engine is closed.
        """
        return TextStream(self, self._run(self._service.start(generation_of(prompt, options))))

    async def astream(self, prompt: PromptLike, **options: Unpack[Options]) -> TextStream:
        """As `stream`, for `async for`."""
        return TextStream(self, await self._arun(self._service.start(generation_of(prompt, options))))

    def close(self) -> None:
        """Stop the engine and free its memory. Answers under way end with an EngineError."""
        if self.is_closed:
            return
        self._loop.refuse()
        self._engine.close()
        self._loop.close(_SETTLE_S)
        self._executable.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _generate(self, generations: Sequence[Generation]) -> list[Completion]:
        return await together(self._answer(generation) for generation in generations)

    async def _answer(self, generation: Generation) -> Completion:
        async with self._room:
            stream = await self._service.start(generation)
            try:
                return completion_of([delta async for delta in stream], stream.usage)
            finally:
                await stream.aclose()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return self._loop.run(work)
        except LoopClosed as error:
            raise EngineError(_CLOSED) from error

    async def _arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        try:
            return await self._loop.arun(work)
        except LoopClosed as error:
            raise EngineError(_CLOSED) from error


async def _start(model: LoadedModel, config: EngineConfig, levels: LevelsConfig) -> LocalEngine:
    opened = model.open_levels(levels)
    return start_engine(model, config, emit=lambda _record: None, on_failure=lambda: None, levels=opened)


def _unhurried(generation: Generation) -> Generation:
    """As it is, but never too late for anything."""
    return replace(generation, standing=replace(generation.standing, ttft_s=math.inf, queue_ttl_s=math.inf))
