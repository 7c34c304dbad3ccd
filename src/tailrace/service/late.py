"""A service that is not there yet: front ends can listen and say 503 while a model loads, and while it drains."""

import time
from collections.abc import Callable, Sequence

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.errors import UnavailableError
from tailrace.service.api import (
    Generation,
    GenerationStream,
    Journal,
    JournaledService,
    Milestones,
    ModelCard,
    Output,
    Prompt,
    SettledGeneration,
)
from tailrace.types import BlockTarget, Explanation, Invalidated, ModelTarget, TenantTarget

__all__ = ["LateService"]

_MOMENT_S = 1.0


class LateService:
    """Passes everything on to the service that `arrive` brings; refuses before that and after `drain`.

    While `is_open` says no, it is not ready: who asks first whether it is comes later. Who does not is served.
    """

    def __init__(
        self, model: ModelCard, classes: ServiceClasses = STANDARD, *, is_open: Callable[[], bool] = lambda: True
    ) -> None:
        self._model = model
        self._classes = classes
        self._service: JournaledService | None = None
        self._ends_s: float | None = None  # when a drain is over at the latest
        self._is_open = is_open

    def arrive(self, service: JournaledService) -> None:
        self._service = service

    def drain(self, patience_s: float) -> None:
        """Take no new work from now on; what is under way goes on, for no longer than that."""
        self._ends_s = time.monotonic() + patience_s

    @property
    def model(self) -> ModelCard:
        return self._model

    @property
    def is_ready(self) -> bool:
        is_loaded = self._service is not None and self._service.is_ready
        return is_loaded and self._ends_s is None and self._is_open()

    @property
    def classes(self) -> ServiceClasses:
        return self._classes if self._service is None else self._service.classes

    async def start(self, generation: Generation) -> GenerationStream:
        self._check_open()
        return await self._loaded.start(generation)

    async def start_journaled(self, generation: Generation, journal: Journal) -> GenerationStream:
        self._check_open()
        return await self._loaded.start_journaled(generation, journal)

    async def resume(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal,
        milestones: Milestones | None = None,
    ) -> GenerationStream:
        self._check_open()
        return await self._loaded.resume(settled, outputs, journal, milestones)

    async def explain(self, prompt: Prompt, cache_salt: str) -> Explanation:
        return await self._loaded.explain(prompt, cache_salt)

    async def invalidate(self, target: BlockTarget | TenantTarget | ModelTarget) -> Invalidated:
        return await self._loaded.invalidate(target)

    async def invalidate_prompt(self, prompt: Prompt, cache_salt: str) -> Invalidated:
        return await self._loaded.invalidate_prompt(prompt, cache_salt)

    def tokenize(self, prompt: Prompt) -> list[int]:
        return self._loaded.tokenize(prompt)

    def token_text(self, token_id: int) -> str:
        return self._loaded.token_text(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return self._loaded.detokenize(token_ids)

    def _check_open(self) -> None:
        if self._ends_s is not None:
            left_s = max(self._ends_s - time.monotonic(), _MOMENT_S)
            raise UnavailableError("the server is shutting down and takes no new requests", retry_after_s=left_s)

    @property
    def _loaded(self) -> JournaledService:
        if self._service is None:
            message = f"the model {self._model.name} is still loading; try again in a moment"
            raise UnavailableError(message, retry_after_s=_MOMENT_S)
        return self._service
