"""What one tenant's burst does to another's waits, in simulated time."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tailrace.classes import STANDARD
from tailrace.scheduler.queue import WaitingQueue
from tests.support.lives import make_waiting

TOKENS_PER_S = 1_000
MEAN_WORK = 500
RUN_S, BURST_FROM_S, BURST_S = 600.0, 200.0, 10.0
BURST = 50.0  # times as many requests as usual

STATED_FACTOR = 2.5  # see TenantTurns


class Arrival(NamedTuple):
    at_s: float
    tenant: str
    work_tokens: int


def stream(tenant: str, per_s: float, from_s: float, to_s: float, source: random.Random) -> Iterator[Arrival]:
    at_s = from_s
    while (at_s := at_s + source.expovariate(per_s)) < to_s:
        yield Arrival(at_s, tenant, source.randint(50, 2 * MEAN_WORK - 50))


def waits_s(arrivals: list[Arrival], *, is_shared_fairly: bool = True) -> list[float]:
    """Of the tenant "steady", when one request is computed after the other."""
    arrivals = sorted(arrivals)
    queue = WaitingQueue(STANDARD)
    now_s, num_arrived = 0.0, 0
    waits = []
    while num_arrived < len(arrivals) or len(queue):
        if not len(queue):
            now_s = max(now_s, arrivals[num_arrived].at_s)
        while num_arrived < len(arrivals) and arrivals[num_arrived].at_s <= now_s:
            at_s, tenant, work_tokens = arrivals[num_arrived]
            name = tenant if is_shared_fairly else "all"
            queue.push(make_waiting(num_arrived, work_tokens, arrival_s=at_s, tenant=name))
            num_arrived += 1
        live = queue.first(now_s)
        assert live is not None
        if arrivals[live.arrival_rank].tenant == "steady":
            waits.append(now_s - live.request.arrival_s)
        queue.admitted(live, live.work_tokens, now_s)
        now_s += live.work_tokens / TOKENS_PER_S
    return waits


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


@pytest.mark.parametrize("busy", [0.1, 0.2, 0.3, 0.4])  # how much of the time each of the two asks for
def test_a_burst_moves_the_waits_of_another_tenant_by_no_more_than_stated(busy: float) -> None:
    """Ten runs are taken together: the P95 of one is that of some two hundred requests, and moves by itself."""
    per_s = busy * TOKENS_PER_S / MEAN_WORK
    before, fair, unfair = list[float](), list[float](), list[float]()
    for seed in range(10):
        steady = stream("steady", per_s, 0.0, RUN_S, random.Random(seed))
        usual = [*steady, *stream("bursting", per_s, 0.0, RUN_S, random.Random(100 + seed))]
        burst = stream("bursting", BURST * per_s, BURST_FROM_S, BURST_FROM_S + BURST_S, random.Random(200 + seed))
        all_of_it = [*usual, *burst]
        before += waits_s(usual)
        fair += waits_s(all_of_it)
        unfair += waits_s(all_of_it, is_shared_fairly=False)
    assert p95(fair) <= STATED_FACTOR * p95(before)
    assert p95(unfair) > 5 * STATED_FACTOR * p95(before)
