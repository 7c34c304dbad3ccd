"""Blocks that move whenever they can change no token, whatever is read and written beside them."""

import random

import pytest

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Level
from tests.support.shuffling import ShufflingCache
from tests.support.simulated_store import Faults
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request, restless

NUM_REQUESTS = 80
TENANTS = "abcdef"


def make_engine(
    seed: int, window_tokens: int | None, levels: tuple[Level, ...], *, shuffles: bool = False
) -> SimulatedEngine:
    source = random.Random(seed)
    config = SchedulerConfig(
        budget_tokens=source.choice((6, 12, 40)),
        max_running=5,
        max_model_tokens=60,
        eos_ids=(EOS_ID,),
        chunk_tokens=source.choice((None, 3)),
    )
    kv = KvCacheConfig(
        source.randint(40, 120),
        2,
        ("model",),
        window_tokens,
        chunk_tokens=source.choice((4, 8, 16)),
        compaction=restless(source.randint(1, 8)),
    )
    cache = ShufflingCache(kv, source) if shuffles else None
    faults = Faults(slow=70, gone=10)
    return SimulatedEngine(config, kv, vocabulary=12, levels=levels, faults=faults, seed=seed, cache=cache)


def run_traffic(engine: SimulatedEngine, seed: int, *, num_tokens: tuple[int, ...], forgets: bool) -> None:
    source = random.Random(seed)
    for number in range(NUM_REQUESTS):
        prompt = [source.randrange(1, 9) for _ in range(source.choice(num_tokens))]
        max_tokens, tenant = source.randint(1, 20), source.choice(TENANTS)
        engine.add(make_request(f"r{number}", prompt, max_tokens, seed=number, cache_salt=tenant))
        if forgets:
            forget(engine, source.choice(TENANTS))
        for _ in range(source.randint(0, 3)):
            engine.step()
            engine.cache.check()
    engine.run_to_end()
    engine.assert_outputs_as_alone()
    engine.assert_nothing_leaked()


def forget(engine: SimulatedEngine, tenant: str) -> None:
    """Make holes in the chunks that tenants share."""
    engine.cache.forget(Forget(Scope.TENANT, engine.cache.open(tenant).owner.tenant))


@pytest.mark.parametrize("levels", [(), (Level.HOST, Level.DISK)], ids=["engine", "levels"])
@pytest.mark.parametrize("window_tokens", [None, 9], ids=["all", "window"])
@pytest.mark.parametrize("seed", range(3))
def test_compaction_changes_no_token(seed: int, window_tokens: int | None, levels: tuple[Level, ...]) -> None:
    engine = make_engine(seed, window_tokens, levels)
    run_traffic(engine, seed, num_tokens=(5, 9, 13, 34), forgets=True)
    assert engine.runner.num_moves > 5


@pytest.mark.parametrize("levels", [(), (Level.HOST, Level.DISK)], ids=["engine", "levels"])
@pytest.mark.parametrize("window_tokens", [None, 5], ids=["all", "window"])
@pytest.mark.parametrize("seed", [1, 3, 24])  # 24: blocks move that the runtime has not been told of
def test_no_move_changes_a_token(seed: int, window_tokens: int | None, levels: tuple[Level, ...]) -> None:
    engine = make_engine(seed, window_tokens, levels, shuffles=True)
    run_traffic(engine, seed, num_tokens=(3, 30, 40), forgets=False)
    assert engine.runner.num_moves > 10
