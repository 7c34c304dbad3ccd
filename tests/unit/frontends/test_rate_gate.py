"""Who may come in: by how many are here, and by what was used in the last minute, over all processes."""

import random

import pytest

from tailrace.errors import Overloaded, RefusalReason
from tailrace.frontends.rate_gate import Left, RateGate, Visit
from tailrace.frontends.rate_table import MAX_PROCESSES, RateTable
from tailrace.frontends.standing import ANYBODY, Client, ClientLimits


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> int:
        return round(self.now_s * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gates(clock: Clock) -> list[RateGate]:
    """Of two processes."""
    table = RateTable.shared(64)
    return [RateGate(table, process, clock) for process in range(2)]


def client(name: str = "shop", **limits: int) -> Client:
    return Client(name, "gold", "gold", ClientLimits(**limits))


def refused_for(visit: Visit) -> tuple[RefusalReason, float] | None:
    return None if visit.refusal is None else (visit.refusal.reason, round(visit.refusal.retry_after_s, 6))


def test_who_has_no_limits_is_not_counted(gates: list[RateGate]) -> None:
    for _ in range(100):
        visit = gates[0].enter(ANYBODY)
        visit.charge(10**9)
        assert (visit.refusal, visit.requests, visit.tokens) == (None, None, None)


def test_requests_of_a_minute_are_counted_over_processes(gates: list[RateGate], clock: Clock) -> None:
    shop = client(requests_per_minute=6)
    lefts = [gates[i % 2].enter(shop).requests for i in range(6)]
    assert lefts == [Left(6, 5 - i, 10.0 * (i + 1)) for i in range(6)]
    for gate in gates:
        visit = gate.enter(shop)
        assert refused_for(visit) == (RefusalReason.RATE_LIMITED, 10.0)
        assert visit.requests == Left(6, 0, 60.0)
    clock.now_s += 9.999
    assert refused_for(gates[0].enter(shop)) == (RefusalReason.RATE_LIMITED, 0.001)
    clock.now_s += 0.001
    assert refused_for(gates[1].enter(shop)) is None
    assert refused_for(gates[0].enter(shop)) is not None
    assert refused_for(gates[0].enter(client("other", requests_per_minute=6))) is None


def test_tokens_are_counted_when_they_are_known_and_waited_for_by_the_next(gates: list[RateGate], clock: Clock) -> None:
    shop = client(tokens_per_minute=600)
    first = gates[0].enter(shop)
    assert (first.tokens, first.requests) == (Left(600, 600, 0.0), None)
    first.charge(500)
    second = gates[1].enter(shop)
    assert second.tokens == Left(600, 100, 50.0)
    second.charge(200)
    first.leave()
    assert refused_for(gates[0].enter(shop)) == (RefusalReason.RATE_LIMITED, 10.1)
    clock.now_s += 10.1
    assert refused_for(gates[0].enter(shop)) is None


def test_how_many_are_here_at_once_is_counted_over_processes(gates: list[RateGate]) -> None:
    shop = client(max_requests=2)
    visits = [gate.enter(shop) for gate in gates]
    refused = gates[0].enter(shop)
    assert refused_for(refused) == (RefusalReason.TENANT_LIMIT, 1.0)
    refused.leave()  # was never here
    assert gates[0].enter(shop).refusal is not None
    visits[1].leave()
    visits[1].leave()  # only once
    assert gates[0].enter(shop).refusal is None
    assert gates[1].enter(shop).refusal is not None


def test_a_process_that_begins_anew_has_nobody_inside(clock: Clock) -> None:
    table, shop = RateTable.shared(64), client(max_requests=1)
    assert RateGate(table, 3, clock).enter(shop).refusal is None
    assert RateGate(table, 0, clock).enter(shop).refusal is not None
    assert RateGate(table, 3, clock).enter(shop).refusal is None


def test_who_is_refused_uses_nothing_up(gates: list[RateGate], clock: Clock) -> None:
    shop = client(requests_per_minute=1, max_requests=1)
    gates[0].enter(shop).leave()
    for _ in range(1000):
        assert gates[0].enter(shop).refusal is not None
    clock.now_s += 60
    assert gates[0].enter(shop).refusal is None


def test_limits_of_a_changed_file_hold_for_what_was_used_before(gates: list[RateGate]) -> None:
    for _ in range(10):
        gates[0].enter(client(requests_per_minute=10))
    assert gates[0].enter(client(requests_per_minute=10)).refusal is not None
    assert gates[0].enter(client(tokens_per_minute=10)).refusal is None


def test_a_full_table_lets_nobody_in_unseen(clock: Clock) -> None:
    gate = RateGate(RateTable.alone(1), clock_ns=clock)
    assert gate.enter(client("a", max_requests=2)).refusal is None
    assert refused_for(gate.enter(client("b", max_requests=2))) == (RefusalReason.RATE_LIMITED, 1.0)


@pytest.mark.parametrize("process", [-1, MAX_PROCESSES])
def test_there_is_room_for_so_many_processes(process: int) -> None:
    with pytest.raises(ValueError, match="processes 0 to 63"):
        RateGate(RateTable.alone(), process)


@pytest.mark.parametrize("seed", range(20))
def test_random_visits_of_random_clients_keep_every_limit(seed: int) -> None:
    """Against a plain list of who is here and when who came."""
    chance, clock, table = random.Random(seed), Clock(), RateTable.shared(32)
    gates = [RateGate(table, process, clock) for process in range(3)]
    clients = [
        client(f"client-{i}", max_requests=chance.randint(1, 4), requests_per_minute=chance.randint(1, 30))
        for i in range(10)
    ]
    here: list[tuple[Client, Visit]] = []
    came: dict[str, list[float]] = {one.name: [] for one in clients}
    for _ in range(500):
        clock.now_s += chance.expovariate(5)
        if here and chance.random() < 0.4:
            here.pop(chance.randrange(len(here)))[1].leave()
            continue
        one = chance.choice(clients)
        visit = chance.choice(gates).enter(one)
        num_here = sum(other is one for other, _ in here)
        assert one.limits.max_requests is not None
        assert one.limits.requests_per_minute is not None
        if visit.refusal is None:
            here.append((one, visit))
            came[one.name].append(clock.now_s)
            assert num_here < one.limits.max_requests
        elif visit.refusal.reason is RefusalReason.TENANT_LIMIT:
            assert num_here == one.limits.max_requests
    for one in clients:
        times = came[one.name]
        for i, first_s in enumerate(times):
            assert one.limits.requests_per_minute is not None
            for j in range(i, len(times)):
                allowed = one.limits.requests_per_minute * (1 + (times[j] - first_s) / 60)
                assert j - i + 1 <= allowed + 1e-6


def test_who_is_here_has_left_when_its_visit_is_over_however_it_ends() -> None:
    gate = RateGate(RateTable.alone())
    one = Client("one", limits=ClientLimits(max_requests=1))
    noted: list[Visit] = []
    with gate.visiting(one, noted.append) as visit:
        assert noted == [visit]
        with pytest.raises(Overloaded), gate.visiting(one, noted.append):
            raise AssertionError("it was let in")
        assert noted[1].refusal is not None
    with pytest.raises(KeyError), gate.visiting(one):
        raise KeyError
    with pytest.raises(ZeroDivisionError), gate.visiting(one, lambda visit: 1 // 0):
        raise AssertionError("it was let in")
    with gate.visiting(one) as visit:
        assert visit.refusal is None
