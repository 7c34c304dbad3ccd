from collections.abc import Sequence

import pytest

from tailrace.errors import UnavailableError
from tailrace.service.api import Generation, GenerationStream, ModelCard, Prompt, TextPrompt
from tailrace.service.late import LateService
from tailrace.types import SamplingParams

CARD = ModelCard("m", (), 0, max_model_tokens=8, vocab_size=4)
GENERATION = Generation("r", TextPrompt("x"), SamplingParams(max_tokens=1))


class Loaded:
    model = CARD
    is_ready = True

    async def start(self, generation: Generation) -> GenerationStream:
        raise LookupError(generation.request_id)

    def tokenize(self, prompt: Prompt) -> list[int]:
        return [1]

    def token_text(self, token_id: int) -> str:
        return str(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return "x" * len(token_ids)


async def test_before_the_model_has_loaded_everything_but_its_card_is_unavailable() -> None:
    service = LateService(CARD)

    assert service.model is CARD
    assert not service.is_ready
    with pytest.raises(UnavailableError, match="m is still loading"):
        await service.start(GENERATION)
    with pytest.raises(UnavailableError, match="loading"):
        service.tokenize(TextPrompt("x"))


async def test_once_loaded_calls_pass_through() -> None:
    service = LateService(CARD)
    service.arrive(Loaded())

    assert service.is_ready
    assert service.detokenize([1, 2]) == "xx"
    with pytest.raises(LookupError, match="r"):
        await service.start(GENERATION)


async def test_a_draining_service_refuses_new_work_only() -> None:
    service = LateService(CARD)
    service.arrive(Loaded())
    service.drain()

    assert not service.is_ready
    assert service.tokenize(TextPrompt("x")) == [1]
    with pytest.raises(UnavailableError, match="shutting down"):
        await service.start(GENERATION)
