"""A service that is not there yet: front ends can listen and say 503 while a model loads, and while it drains."""

from collections.abc import Sequence

from tailrace.errors import UnavailableError
from tailrace.service.api import Generation, GenerationStream, ModelCard, Prompt, Service

__all__ = ["LateService"]


class LateService:
    """Passes everything on to the service that `arrive` brings; refuses before that and after `drain`."""

    def __init__(self, model: ModelCard) -> None:
        self._model = model
        self._service: Service | None = None
        self._is_draining = False

    def arrive(self, service: Service) -> None:
        self._service = service

    def drain(self) -> None:
        """Take no new work from now on; running streams go on."""
        self._is_draining = True

    @property
    def model(self) -> ModelCard:
        return self._model

    @property
    def is_ready(self) -> bool:
        return self._service is not None and self._service.is_ready and not self._is_draining

    async def start(self, generation: Generation) -> GenerationStream:
        if self._is_draining:
            raise UnavailableError("the server is shutting down and takes no new requests")
        return await self._loaded.start(generation)

    def tokenize(self, prompt: Prompt) -> list[int]:
        return self._loaded.tokenize(prompt)

    def token_text(self, token_id: int) -> str:
        return self._loaded.token_text(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return self._loaded.detokenize(token_ids)

    @property
    def _loaded(self) -> Service:
        if self._service is None:
            raise UnavailableError(f"the model {self._model.name} is still loading; try again in a moment")
        return self._service
