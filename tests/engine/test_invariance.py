"""A token depends on its request alone: the same bits alone, batched, chunked, cached, preempted, on 1 or 2 threads."""

import pytest

from tailrace.config import KvCacheDtype
from tailrace.models.registry import build_program
from tailrace.ops.load import load_backend
from tailrace.records import RequestRecord
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import Request, SamplingParams
from tailrace.weights.checkpoint import Checkpoint
from tests.engine.harness import Harness, MakeHarness
from tests.support.shuffling import ShufflingCache

TEXTS = (
    "The river ran high that spring, and the mill stood idle for the first time in forty years.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "Q: What is the capital of France?\nA:",
    "In the beginning the Universe was created. This has made a lot of people",
)
ANSWER_TOKENS = 24


@pytest.fixture(scope="session")
def prompts(checkpoint: Checkpoint) -> list[tuple[int, ...]]:
    tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
    short = [tuple(tokenizer.encode(text, allow_control=False)) for text in TEXTS]
    long = tuple(tokenizer.encode(" ".join(TEXTS) * 3, allow_control=False))
    return [*short, long]


def requests(prompts: list[tuple[int, ...]], copies: int = 1) -> list[Request]:
    """A greedy and a seeded request for each prompt, `copies` times under other names."""
    return [
        Request(
            f"{copy}/{number}/{temperature}",
            prompt,
            SamplingParams(max_tokens=ANSWER_TOKENS, temperature=temperature, seed=17 + number, ignore_eos=True),
        )
        for copy in range(copies)
        for number, prompt in enumerate(prompts)
        for temperature in (0.0, 0.9)
    ]


@pytest.fixture(scope="session")
def alone(make_harness: MakeHarness, prompts: list[tuple[int, ...]]) -> dict[str, list[int]]:
    return answers_alone(make_harness(budget_tokens=512, max_running=1), prompts)


def answers_alone(harness: Harness, prompts: list[tuple[int, ...]]) -> dict[str, list[int]]:
    """Each request by itself, prompts in one piece, nothing cached: what everything else must equal."""
    answers: dict[str, list[int]] = {}
    for request in requests(prompts):
        # A salt of its own: no block is shared with the request before.
        salted = Request(request.request_id, request.prompt_ids, request.sampling, cache_salt=request.request_id)
        answers |= harness.run([salted])
    assert all(len(answer) == ANSWER_TOKENS for answer in answers.values())
    return answers


def assert_same(harness: Harness, alone: dict[str, list[int]], work: list[Request]) -> None:
    answers = harness.run(work)
    for request_id, answer in answers.items():
        _, name = request_id.split("/", 1)
        assert answer == alone[f"0/{name}"], request_id


def test_batched_with_fifteen_others(
    make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]]
) -> None:
    # A fixed number, since how many run at once must not depend on the machine's pace.
    harness = make_harness(max_running=16, chunk_tokens=512)
    assert_same(harness, alone, requests(prompts, copies=2)[:16])
    assert max(record.num_running for record in harness.steps) == 16


@pytest.mark.parametrize("budget_tokens", [7, 16, 61])
def test_prompts_cut_into_chunks(
    make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]], budget_tokens: int
) -> None:
    harness = make_harness(budget_tokens=budget_tokens, max_running=4)
    assert_same(harness, alone, requests(prompts))
    assert max(record.num_tokens for record in harness.steps) <= budget_tokens


def test_with_a_cache_hit(
    make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]]
) -> None:
    harness = make_harness()
    assert_same(harness, alone, requests(prompts))
    again = [Request(f"9/{r.request_id[2:]}", r.prompt_ids, r.sampling) for r in requests(prompts)]
    assert_same(harness, alone, again)
    cached = [
        record.num_cached_tokens
        for record in harness.records
        if isinstance(record, RequestRecord) and record.request_id.startswith("9/4/")
    ]
    assert len(cached) == 2
    assert all(tokens > 100 for tokens in cached)


@pytest.mark.parametrize("num_shared", [3, 17, 30])
def test_with_the_beginning_of_a_block_copied(
    make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]], num_shared: int
) -> None:
    harness = make_harness()
    harness.run(
        [
            Request(f"7/{number}", (*prompt[:num_shared], *range(50, 80)), SamplingParams(1, temperature=0.0))
            for number, prompt in enumerate(prompts)
        ]
    )
    first = len(harness.records)
    assert_same(harness, alone, requests(prompts))
    cached = [record.num_cached_tokens for record in harness.records[first:] if isinstance(record, RequestRecord)]
    assert num_shared in cached


def test_after_forced_preemption(
    checkpoint: Checkpoint, make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]]
) -> None:
    longest = max(len(prompt) for prompt in prompts) + ANSWER_TOKENS
    block_bytes = load_backend("cpu").kv_bytes_per_block(build_program(checkpoint.config), 16)
    harness = make_harness(kv_memory_bytes=block_bytes * (longest // 16 + 2), max_running=8)
    assert_same(harness, alone, requests(prompts))
    assert harness.steps[-1].num_preempted > 0


def test_while_blocks_move(
    make_harness: MakeHarness,
    prompts: list[tuple[int, ...]],
    alone: dict[str, list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every step some blocks lie elsewhere, those that are shared and those that are written to among them."""
    monkeypatch.setattr("tailrace.app.KvCache", ShufflingCache)
    harness = make_harness(max_running=6)
    assert_same(harness, alone, requests(prompts))
    assert_same(harness, alone, requests(prompts))
    assert harness.steps[-1].pool.num_moved_total > 100


def test_on_one_thread(make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]]) -> None:
    assert_same(make_harness(num_threads=1), alone, requests(prompts))


def test_resumed_behind_tokens_already_delivered(
    make_harness: MakeHarness, prompts: list[tuple[int, ...]], alone: dict[str, list[int]]
) -> None:
    harness = make_harness()
    for request in requests(prompts):
        whole = alone[request.request_id]
        resumed = Request(request.request_id, request.prompt_ids, request.sampling, output_ids=tuple(whole[:10]))
        assert harness.run([resumed])[request.request_id] == whole[10:]


@pytest.mark.parametrize("kv_cache_dtype", ["int8", "fp8_e4m3"])
def test_with_narrow_keys_and_values(
    make_harness: MakeHarness, prompts: list[tuple[int, ...]], kv_cache_dtype: KvCacheDtype
) -> None:
    """Batched, cut and cached at once: a position's codes and scales depend on it alone."""
    alone = answers_alone(make_harness(budget_tokens=512, max_running=1, kv_cache_dtype=kv_cache_dtype), prompts)
    harness = make_harness(budget_tokens=23, max_running=8, kv_cache_dtype=kv_cache_dtype)
    assert_same(harness, alone, requests(prompts, copies=2))
