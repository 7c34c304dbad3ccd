"""Ten thousand requests are cancelled, in whatever state each is: nothing of them is left, and others lose no token."""

import random
from collections import Counter

import pytest

from tailrace.kvcache.cache import KvCacheConfig
from tailrace.scheduler.lifecycle import RequestState
from tailrace.scheduler.scheduler import SchedulerConfig
from tailrace.types import Level, Request
from tests.support.simulated_store import Faults
from tests.support.simulation import EOS_ID, SimulatedEngine, make_request

NUM_STREAMS = 4
CONFIG = SchedulerConfig(budget_tokens=64, max_running=16, max_model_tokens=80, eos_ids=(EOS_ID,))
KV = KvCacheConfig(240, 2, ("model",))


def victim(source: random.Random, number: int) -> Request:
    """Many begin alike, so that some wait for what others compute."""
    shared = [number // 20, *[1] * 15] * source.choice((0, 1, 1))
    own = [source.randrange(1, 50) for _ in range(source.randint(1, 4))]
    class_name = source.choice(("gold", "silver", "bronze"))
    request = make_request(f"victim-{number}", shared + own, source.randint(1, 6), seed=number)
    return Request(
        request.request_id,
        request.prompt_ids,
        request.sampling,
        class_name=class_name,
        tenant=str(number % 7),
        ttft_s=1e9,
        queue_ttl_s=1e9,
    )


@pytest.mark.parametrize(("num_aborts", "levels"), [(10_000, ()), (2_000, (Level.HOST, Level.DISK))])
def test_aborts_in_any_state_leave_nothing_behind(num_aborts: int, levels: tuple[Level, ...]) -> None:
    source = random.Random(1)
    engine = SimulatedEngine(CONFIG, KV, levels=levels, faults=Faults(), seed=1)
    engine.tick_s = 0.01
    for number in range(NUM_STREAMS):
        engine.add(make_request(f"stream-{number}", [60 + number] * 4, 60, seed=number, ignore_eos=True))
    states: Counter[RequestState] = Counter()
    open_ids: list[str] = []
    number = 0
    while states.total() < num_aborts:
        for _ in range(40):
            engine.add(victim(source, number))
            open_ids.append(f"victim-{number}")
            number += 1
        planned = engine.plan()  # some are aborted while a step runs
        open_ids = [name for name in open_ids if name not in engine.finished]
        source.shuffle(open_ids)
        while len(open_ids) > 25:
            name = open_ids.pop()
            states[state_of(engine, name)] += 1
            engine.abort(name)
        if planned is not None:
            engine.commit(engine.runner.run(planned))
    engine.run_to_end()

    assert set(states) == {RequestState.WAITING, RequestState.DEFERRED, RequestState.RUNNING}
    assert min(states.values()) >= num_aborts // 200, states
    engine.assert_nothing_leaked()
    engine.assert_outputs_as_alone()
    stats = engine.scheduler.stats
    assert (stats.num_waiting, stats.num_deferred, stats.num_waiting_tokens, stats.num_running) == (0, 0, 0, 0)
    assert not engine.scheduler.has_work
    assert all(len(engine.outputs[f"stream-{number}"]) == 60 for number in range(NUM_STREAMS))


def state_of(engine: SimulatedEngine, request_id: str) -> RequestState:
    return engine.scheduler._live[request_id].state
