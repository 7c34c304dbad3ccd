"""A model all of whose layers have a window: in a pool much smaller than its sequences, the same tokens as in a large.

What a window has left behind belongs to others soon, here to sequences of values that are no numbers.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.app import plan_model
from tailrace.config import EngineConfig
from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.load import load_backend
from tailrace.ops.packed import from_float32
from tailrace.types import Request, SamplingParams
from tailrace.weights.checkpoint import Checkpoint
from tests.engine.harness import Harness, make_harness
from tests.support.steps import limits, teacher_forced
from tests.support.tiny import CONFIGS, random_ids, random_weights

CONFIG = replace(CONFIGS["plain"], sliding_window=40, max_model_tokens=400)
PROMPT_TOKENS, ANSWER_TOKENS = 250, 100
BLOCK_TOKENS = 16
BLOCK_BYTES = BLOCK_TOKENS * build_program(CONFIG).kv_values_per_token * 4  # in float32
POISON_ID = 76
PROMPT = random_ids(replace(CONFIG, vocab_size=POISON_ID), PROMPT_TOKENS)
BACKENDS = ("reference", "cpu")


def checkpoint_of(config: ModelConfig) -> Checkpoint:
    weights = random_weights(config)
    embed = np.array(weights["embed"].values)
    embed[POISON_ID] = np.nan
    return Checkpoint(
        name="tiny",
        source=Path("tiny"),
        config=config,
        tensors=weights | {"embed": from_float32(embed)},
        fingerprint="tiny",
        tokenizer=Path("none"),
        chat_template=None,
        bos_id=None,
        eos_ids=(),
    )


def harness_of(backend: str, num_blocks: int, config: ModelConfig = CONFIG, **changes: Any) -> Harness:
    return make_harness(
        checkpoint_of(config),
        backend=backend,
        kv_cache_dtype="f32",
        kv_memory_bytes=num_blocks * BLOCK_BYTES,
        block_tokens=BLOCK_TOKENS,
        budget_tokens=64,
        max_running=4,
        **changes,
    )


def request(name: str, prompt: list[int], *, max_tokens: int = ANSWER_TOKENS, salt: str = "") -> Request:
    return Request(name, tuple(prompt), SamplingParams(max_tokens, temperature=0.0, ignore_eos=True), cache_salt=salt)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answer_of(harness: Harness, wanted: Request, *others: Request) -> list[int]:
    return harness.run([wanted, *others])[wanted.request_id]


def peak_of(harness: Harness) -> int:
    return max(record.num_blocks_used for record in harness.steps)


@pytest.fixture(scope="module")
def alone(backend: str) -> list[int]:
    """What the model says in a pool that holds the whole sequence."""
    answer = answer_of(harness_of(backend, 64), request("alone", PROMPT))
    assert len(set(answer)) > 5, "a model that repeats itself would hide what it must not see"
    return answer


def test_a_pool_of_the_window_is_enough(backend: str, alone: list[int]) -> None:
    num_blocks = 4  # the window touches as many; the sequence fills 22
    harness = harness_of(backend, num_blocks)
    assert answer_of(harness, request("long", PROMPT)) == alone
    assert peak_of(harness) == num_blocks


def test_the_tokens_are_those_of_the_sequence_computed_whole(backend: str, alone: list[int]) -> None:
    of = limits(max_tokens=400, max_sequences=1, max_model_tokens=400, block_tokens=BLOCK_TOKENS)
    executable = load_backend(backend, "f32").load(build_program(CONFIG), checkpoint_of(CONFIG).tensors, of)
    logits = teacher_forced(executable, of, [*PROMPT, *alone[:-1]], chunk_tokens=400)
    assert logits[PROMPT_TOKENS - 1 :].argmax(axis=1).tolist() == alone


def poison(name: str) -> Request:
    """Behind the poison come so many tokens that the last sees nothing of it through any layer, and says something."""
    return request(name, [POISON_ID] * 60 + PROMPT[:220], max_tokens=60, salt=name)


def test_nothing_is_seen_of_those_who_took_the_place(backend: str, alone: list[int]) -> None:
    harness = harness_of(backend, 16, chunk_tokens=64)  # or it would depend on the machine's speed who runs with whom
    assert answer_of(harness, request("clean", PROMPT), *(poison(f"poison {n}") for n in range(4))) == alone
    assert max(record.num_running for record in harness.steps) == 4


def test_a_hit_needs_only_what_the_window_shows(backend: str, alone: list[int]) -> None:
    harness = harness_of(backend, 24)
    harness.run([request("first", PROMPT)])
    harness.run([request("other", PROMPT[:150], max_tokens=1, salt="other")])  # takes the blocks of the beginning
    again = request("again", [*PROMPT, *alone[:60]], max_tokens=ANSWER_TOKENS - 60)
    assert answer_of(harness, again) == alone[60:]
    assert harness.events[-1].num_cached_tokens >= PROMPT_TOKENS


def test_those_that_share_a_prompt_see_each_what_it_would_alone(backend: str) -> None:
    """They decode together behind blocks that all of them hold, and behind places that none of them holds any more."""
    config = replace(CONFIG, sliding_window=150)
    requests = [request(f"{length}", PROMPT[:length], max_tokens=60) for length in (PROMPT_TOKENS, 249, 240, 230)]
    expected = {one.request_id: answer_of(harness_of(backend, 32, config), one) for one in requests}
    assert harness_of(backend, 32, config).run(requests) == expected


def test_one_layer_that_sees_everything_keeps_all_blocks() -> None:
    harness = harness_of("cpu", 64, replace(CONFIG, num_full_attention_layers=1))
    harness.run([request("long", PROMPT)])
    assert peak_of(harness) == -(-(PROMPT_TOKENS + ANSWER_TOKENS - 1) // BLOCK_TOKENS)


def test_a_request_may_be_longer_than_a_pool_that_holds_its_window() -> None:
    for config, longest in ((CONFIG, 400), (replace(CONFIG, num_full_attention_layers=1), 8 * BLOCK_TOKENS)):
        settings = EngineConfig(backend="reference", kv_memory_bytes=8 * BLOCK_BYTES, block_tokens=BLOCK_TOKENS)
        assert plan_model(checkpoint_of(config), settings).max_request_tokens == longest
