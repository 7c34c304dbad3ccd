"""Tailrace as a library: one `Engine`, blocking, streaming or async. The same engine as the server's, in process."""

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack
from uuid import uuid4

from tailrace.app import LoadedModel, build_service, load_model, start_engine
from tailrace.config import EngineConfig
from tailrace.engine.local import LocalEngine
from tailrace.errors import EngineError, InvalidRequest
from tailrace.service.api import (
    ChatPrompt,
    ChoiceDelta,
    Generation,
    GenerationStream,
    InfillPrompt,
    Prompt,
    TextPrompt,
    Usage,
)
from tailrace.types import FinishReason, SamplingParams
from tailrace.weights.load import open_checkpoint

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # the standard library has it from Python 3.13 on

__all__ = ["Completion", "Engine", "Options", "TextStream"]

_Result = TypeVar("_Result")

_SETTLE_S = 10.0  # for answers under way to end when the engine is closed

PromptLike = str | Sequence[Mapping[str, Any]]  # text to continue, or chat messages


class Options(TypedDict, total=False):
    """`stop`, and the fields of `SamplingParams`. Without `max_tokens` an answer may fill the context.

    With `suffix` a code model writes what belongs between a text and that.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: Mapping[int, float]
    min_tokens: int
    ignore_eos: bool
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    suffix: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage


class TextStream:
    """Iterates over pieces of text as they are computed. `usage` and `finish_reason` are final once it has ended.

    Leaving the iteration stops the work; so does `close`, or `aclose` in a coroutine.
    """

    def __init__(self, engine: "Engine", stream: GenerationStream) -> None:
        self._engine = engine
        self._stream = stream
        self._deltas = aiter(stream)
        self.finish_reason: FinishReason | None = None

    @property
    def usage(self) -> Usage:
        return self._stream.usage

    def __iter__(self) -> Iterator[str]:
        try:
            while (delta := self._engine._run(self._next())) is not None:
                if delta.text:
                    yield delta.text
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            while (delta := await self._engine._arun(self._next())) is not None:
                if delta.text:
                    yield delta.text
        finally:
            await self.aclose()

    def close(self) -> None:
        """Stop computing. Harmless when it has ended, or the engine has."""
        if not self._engine.is_closed:
            self._engine._run(self._stream.aclose())

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        if not self._engine.is_closed:
            await self._engine._arun(self._stream.aclose())

    async def _next(self) -> ChoiceDelta | None:
        delta = await anext(self._deltas, None)
        if delta is not None:
            if delta.error is not None:
                raise EngineError(delta.error)
            self.finish_reason = delta.finish_reason or self.finish_reason
        return delta


class Engine:
    """A loaded model. Close it, or use it as a context manager; what is left open is closed when the program ends.

    `model`: a GGUF file, a Hugging Face directory, a hub id or tiny-deepseek; None is the embedded default model.
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
        self.is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tailrace-library", daemon=True)
        self._thread.start()
        self._executable = loaded.executable
        self._engine = self._run(_start(loaded, config))
        self._service = build_service(checkpoint, self._engine, loaded.plan.card())
        self._room = asyncio.Semaphore(config.max_queued)  # a batch of any size waits its turn
        atexit.register(self.close)

    @property
    def num_requests(self) -> int:
        """Answers that are being computed or wait for their turn."""
        return self._engine.num_requests

    def generate(self, prompts: PromptLike | Sequence[PromptLike], **options: Unpack[Options]) -> list[Completion]:
        """Answer one prompt, or each of several, batched; they come back in order. Options: see `stream`."""
        batch = [prompts] if _is_prompt(prompts) else prompts
        return self._run(self._generate([_generation(prompt, options) for prompt in batch]))

    def stream(self, prompt: PromptLike, **options: Unpack[Options]) -> TextStream:
        """Start one answer. `prompt` is text, or a list of chat messages.

        Options: e.g. `max_tokens=64, temperature=0.0, seed=1, stop=["."]`; all are listed in `Options`.
        Raises InvalidRequest, ContextTooLong, Overloaded; EngineError when the engine is closed.
        """
        return TextStream(self, self._run(self._service.start(_generation(prompt, options))))

    async def astream(self, prompt: PromptLike, **options: Unpack[Options]) -> TextStream:
        """As `stream`, for `async for`."""
        return TextStream(self, await self._arun(self._service.start(_generation(prompt, options))))

    def close(self) -> None:
        """Stop the engine and free its memory. Answers under way end with an EngineError."""
        if self.is_closed:
            return
        self._engine.close()
        self._run(_settle())
        self.is_closed = True
        self._executable.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _generate(self, generations: Sequence[Generation]) -> list[Completion]:
        answers = [asyncio.ensure_future(self._answer(generation)) for generation in generations]
        try:
            return list(await asyncio.gather(*answers))
        except BaseException:
            for answer in answers:
                answer.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
            raise

    async def _answer(self, generation: Generation) -> Completion:
        async with self._room:
            stream = await self._service.start(generation)
            try:
                return _completion([delta async for delta in stream], stream.usage)
            finally:
                await stream.aclose()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(self._checked(work), self._loop).result()

    async def _arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._checked(work), self._loop))

    def _checked(self, work: Coroutine[Any, Any, _Result]) -> Coroutine[Any, Any, _Result]:
        if self.is_closed:
            work.close()
            raise EngineError("this engine is closed: make another")
        return work


async def _start(model: LoadedModel, config: EngineConfig) -> LocalEngine:
    return start_engine(model, config, emit=lambda _record: None, on_failure=lambda: None)


async def _settle() -> None:
    """Let whoever waits on this loop learn that the engine has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=_SETTLE_S)


def _completion(deltas: Sequence[ChoiceDelta], usage: Usage) -> Completion:
    last = deltas[-1]
    if last.error is not None or last.finish_reason is None:
        raise EngineError(last.error or "the engine ended the answer without a reason")
    return Completion(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        finish_reason=last.finish_reason,
        usage=usage,
    )


def _is_prompt(prompts: PromptLike | Sequence[PromptLike]) -> "TypeIs[PromptLike]":
    """Whether this is one prompt: a text, or the messages of one chat."""
    return isinstance(prompts, str) or (len(prompts) > 0 and isinstance(prompts[0], Mapping))


def _generation(prompt: PromptLike, options: Options) -> Generation:
    settings: dict[str, Any] = {"max_tokens": 0, **options}
    stop, seed = settings.pop("stop", ()), settings.pop("seed", None)
    suffix = settings.pop("suffix", "")
    settings["logit_bias"] = tuple(dict(settings.get("logit_bias", {})).items())
    settings["stop_token_ids"] = tuple(settings.get("stop_token_ids", ()))
    return Generation(
        request_id=uuid4().hex,
        prompt=_prompt(prompt, suffix),
        sampling=SamplingParams(**settings),
        seed=seed,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )


def _prompt(prompt: PromptLike, suffix: object) -> Prompt:
    if suffix:
        if not (isinstance(prompt, str) and isinstance(suffix, str)):
            raise InvalidRequest("suffix is text, and goes with a prompt of text", param="suffix")
        return InfillPrompt(prompt, suffix)
    return TextPrompt(prompt) if isinstance(prompt, str) else ChatPrompt(prompt)
