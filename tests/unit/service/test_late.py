from collections.abc import Sequence

import pytest

from tailrace.classes import STANDARD
from tailrace.errors import UnavailableError
from tailrace.service.api import (
    Generation,
    GenerationStream,
    Journal,
    Milestones,
    ModelCard,
    Output,
    Prompt,
    SettledGeneration,
    TextPrompt,
)
from tailrace.service.late import LateService
from tailrace.types import BlockTarget, Explanation, Invalidated, ModelTarget, SamplingParams, TenantTarget

CARD = ModelCard("m", (), 0, max_model_tokens=8, vocab_size=4)
GENERATION = Generation("r", TextPrompt("x"), SamplingParams(max_tokens=1))


class Loaded:
    model = CARD
    classes = STANDARD.scaled(2.0)
    is_ready = True

    async def start(self, generation: Generation) -> GenerationStream:
        raise LookupError(generation.request_id)

    async def start_journaled(self, generation: Generation, journal: Journal) -> GenerationStream:
        raise LookupError(generation.request_id)

    async def resume(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal,
        milestones: Milestones | None = None,
    ) -> GenerationStream:
        raise LookupError(settled.request_id)

    async def explain(self, prompt: Prompt, cache_salt: str) -> Explanation:
        raise LookupError(cache_salt)

    async def invalidate(self, target: BlockTarget | TenantTarget | ModelTarget) -> Invalidated:
        raise LookupError(str(target))

    async def invalidate_prompt(self, prompt: Prompt, cache_salt: str) -> Invalidated:
        raise LookupError(cache_salt)

    def tokenize(self, prompt: Prompt) -> list[int]:
        return [1]

    def token_text(self, token_id: int) -> str:
        return str(token_id)

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return "x" * len(token_ids)


async def test_before_the_model_has_loaded_everything_but_its_card_is_unavailable() -> None:
    service = LateService(CARD)

    assert service.model is CARD
    assert service.classes is STANDARD, "what is configured, as long as no machine was measured"
    assert not service.is_ready
    with pytest.raises(UnavailableError, match="m is still loading") as refusal:
        await service.start(GENERATION)
    assert refusal.value.retry_after_s == 1.0
    with pytest.raises(UnavailableError, match="loading"):
        service.tokenize(TextPrompt("x"))


async def test_once_loaded_calls_pass_through() -> None:
    service = LateService(CARD)
    service.arrive(Loaded())

    assert service.is_ready
    assert service.classes is Loaded.classes
    assert service.detokenize([1, 2]) == "xx"
    with pytest.raises(LookupError, match="r"):
        await service.start(GENERATION)
    with pytest.raises(LookupError, match="a salt"):
        await service.explain(TextPrompt("x"), "a salt")
    with pytest.raises(LookupError, match="a salt"):
        await service.invalidate_prompt(TextPrompt("x"), "a salt")
    with pytest.raises(LookupError, match="ModelTarget"):
        await service.invalidate(ModelTarget())


async def test_a_draining_service_refuses_new_work_only() -> None:
    service = LateService(CARD)
    service.arrive(Loaded())
    service.drain(20.0)

    assert not service.is_ready
    assert service.tokenize(TextPrompt("x")) == [1]
    with pytest.raises(UnavailableError, match="shutting down") as refusal:
        await service.start(GENERATION)
    assert refusal.value.retry_after_s is not None
    assert 1.0 <= refusal.value.retry_after_s <= 20.0


async def test_while_others_are_not_there_it_is_not_ready_and_serves_who_comes_all_the_same() -> None:
    is_open = False
    service = LateService(CARD, is_open=lambda: is_open)
    service.arrive(Loaded())
    assert not service.is_ready
    with pytest.raises(LookupError):
        await service.start(GENERATION)
    is_open = True
    assert service.is_ready
