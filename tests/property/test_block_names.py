"""The name of a block stands for its tokens and for what changes keys and values; for nothing else."""

import random
from hashlib import blake2b

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.records import BlockStored
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Request
from tests.support.simulation import SimulatedEngine, make_request

BLOCK = 4
MODEL = ("model",)


def random_requests(seed: int) -> list[Request]:
    source = random.Random(seed)
    system = [source.randrange(1, 9) for _ in range(10)]
    return [
        make_request(
            f"r{number}",
            [*system, *(source.randrange(1, 50) for _ in range(source.randint(1, 20)))],
            source.randint(1, 12),
            seed=number,
            ignore_eos=True,
            cache_salt=source.choice(["", "tenant"]),
        )
        for number in range(12)
    ]


def names_given(engine: SimulatedEngine, requests: list[Request], gap_steps: int) -> set[bytes]:
    """All names under which blocks were listed while the requests came, `gap_steps` steps apart."""
    engine.cache.watch()
    for request in requests:
        engine.add(request)
        for _ in range(gap_steps):
            engine.step()
    engine.run_to_end()
    return {fact.name for fact in engine.scheduler.drain_facts() if isinstance(fact, BlockStored)}


def engine_of(budget_tokens: int, max_running: int, max_model_tokens: int, num_blocks: int = 400) -> SimulatedEngine:
    config = SchedulerConfig(
        budget_tokens=budget_tokens,
        max_running=max_running,
        max_model_tokens=max_model_tokens,
        eos_ids=(),
    )
    return SimulatedEngine(config, KvCacheConfig(num_blocks, BLOCK, MODEL))


def framed(*parts: str) -> bytes:
    return b"".join(len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts)


def digest(message: bytes) -> bytes:
    return blake2b(message, digest_size=16).digest()


def names_by_hand(salt: str, token_ids: list[int]) -> list[bytes]:
    """The chain as the documentation has it: fingerprint and tenant, then the tokens of each full block."""
    names = [digest(digest(framed(*MODEL)) + digest(framed(salt)))]
    for start in range(0, len(token_ids) - BLOCK + 1, BLOCK):
        tokens = b"".join(token.to_bytes(4, "little") for token in token_ids[start : start + BLOCK])
        names.append(digest(names[-1] + tokens))
    return names[1:]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    budget_tokens=st.integers(6, 64),
    max_running=st.integers(1, 6),
    max_model_tokens=st.integers(60, 500),
    gap_steps=st.integers(0, 30),
)
def test_names_come_from_tokens_and_owner_alone(
    seed: int, budget_tokens: int, max_running: int, max_model_tokens: int, gap_steps: int
) -> None:
    """Whatever the chunks, the company in a batch and the longest sequence allowed; written by prefill or by decode."""
    requests = random_requests(seed)
    engine = engine_of(budget_tokens, max_running, max_model_tokens)
    given_names = names_given(engine, requests, gap_steps)
    expected = {
        name
        for request in requests
        for name in names_by_hand(request.cache_salt, [*request.prompt_ids, *engine.outputs[request.request_id]][:-1])
    }
    assert given_names == expected
    engine.assert_outputs_as_alone()
