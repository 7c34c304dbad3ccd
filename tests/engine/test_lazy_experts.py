"""Answers of a mixture whose experts are loaded when they are chosen are those of one that has them all."""

import random
from dataclasses import replace

import pytest

from tailrace import Engine, EngineConfig
from tailrace.config import LazyExperts
from tailrace.errors import SetupError

TOPICS = ("Emma was", "The family of Dashwood had long been settled in Sussex.", "It was the best", "Call me", "In the")
EXPERT_BYTES = 3 * 64 * 192  # about, of the smallest kind of packing


def config(lazy_experts: LazyExperts) -> EngineConfig:
    return EngineConfig(max_model_tokens=512, kv_memory_bytes=16 << 20, lazy_experts=lazy_experts)


def prompts(seed: int) -> list[str]:
    """Long and short ones, some of which begin alike."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(TOPICS, k=rng.choice((1, 2, 9)))) for _ in range(9)]


def answers(of: EngineConfig, seed: int) -> list[tuple[int, ...]]:
    with Engine("tiny-deepseek", config=of) as engine:
        found = [
            answer.token_ids
            for temperature in (0.0, 0.9)
            for answer in engine.generate(prompts(seed), max_tokens=12, temperature=temperature, seed=seed)
        ]
        again = engine.generate(prompts(seed)[:3], max_tokens=12, temperature=0.0)  # out of the cache
        assert any(answer.usage.cached_tokens > 0 for answer in again)
        return found + [answer.token_ids for answer in again]


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    return answers(config(None), seed=5)


@pytest.mark.parametrize("lazy_experts", ["auto", 1, 4 * EXPERT_BYTES, 20 * EXPERT_BYTES])
@pytest.mark.parametrize(("budget_tokens", "max_running"), [(512, 64), (16, 3)], ids=["usual", "narrow"])
def test_answers_are_the_same(
    expected: list[tuple[int, ...]], lazy_experts: LazyExperts, budget_tokens: int, max_running: int
) -> None:
    lazy = replace(config(lazy_experts), budget_tokens=budget_tokens, max_running=max_running)

    assert answers(lazy, seed=5) == expected


def test_a_model_without_experts_is_refused() -> None:
    with pytest.raises(SetupError, match="is no mixture of experts: leave --lazy-experts out"):
        Engine(config=config("auto"))


def test_the_reference_back_end_is_refused_by_its_name() -> None:
    reference = EngineConfig(backend="reference", max_model_tokens=64, kv_memory_bytes=1 << 20, lazy_experts="auto")
    with pytest.raises(SetupError, match="the reference back end has all experts in memory"):
        Engine("tiny-deepseek", config=reference)
