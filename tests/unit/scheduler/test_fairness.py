from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tailrace.scheduler.fairness import MAX_IDLE_TENANTS, TenantTurns
from tailrace.scheduler.waiting import WaitingRequest
from tests.support.lives import make_waiting


class Turns:
    """Tenants take turns; each request is known by its tenant."""

    def __init__(self) -> None:
        self.turns = TenantTurns()
        self.ranks = count()

    def wait(self, tenant: str, work_tokens: int = 10, times: int = 1) -> None:
        for _ in range(times):
            request = WaitingRequest(make_waiting(next(self.ranks), work_tokens, tenant=tenant), 0.0, may_expire=False)
            request.look(0.0)
            self.turns.add(tenant, request.place)

    def admit(self) -> str:
        place = self.turns.first
        request = place[-1]
        self.turns.charge(request.tenant, request.work_tokens)
        self.turns.remove(request.tenant, place)
        return request.tenant


def test_tenants_take_turns_though_one_asks_for_more() -> None:
    turns = Turns()
    turns.wait("a", times=5)
    turns.wait("b", times=2)
    assert [turns.admit() for _ in range(7)] == list("ababaaa")


def test_turns_are_of_tokens_not_of_requests() -> None:
    turns = Turns()
    turns.wait("long", 40, times=3)
    turns.wait("short", 10, times=8)
    assert [turns.admit() for _ in range(7)] == ["long", *["short"] * 4, "long", "short"]


def test_what_streams_are_served_counts_whether_more_waits_or_not() -> None:
    turns = Turns()
    turns.wait("a", times=2)
    turns.wait("b", times=2)
    turns.turns.charge("a", 25)
    assert [turns.admit() for _ in range(4)] == list("bbaa")
    turns.wait("c")
    turns.admit()
    turns.wait("d", times=8)
    turns.turns.charge("c", 100)  # it does not wait now
    turns.wait("c")
    assert [turns.admit() for _ in range(9)] == [*"dddddddd", "c"]


def test_to_have_been_idle_is_no_credit() -> None:
    turns = Turns()
    turns.wait("a")
    turns.wait("b")
    turns.admit()
    turns.admit()
    turns.wait("b", times=100)
    for _ in range(50):
        turns.admit()
    turns.wait("a", times=3)
    turns.wait("new", times=3)
    assert sorted(turns.admit() for _ in range(3)) == ["a", "b", "new"]


def test_who_used_what_nobody_wanted_owes_nothing() -> None:
    turns = Turns()
    turns.wait("alone", times=103)
    for _ in range(100):
        turns.admit()
    turns.wait("new", times=3)
    assert [turns.admit() for _ in range(6)] == ["alone", "new"] * 3


def test_who_comes_when_others_were_served_much_starts_level_with_who_waits() -> None:
    turns = Turns()
    turns.wait("poor", times=4)
    turns.wait("rich")
    turns.turns.charge("rich", 1_000)
    place = turns.turns._waiting["rich"].requests.first
    turns.turns.remove("rich", place)
    turns.wait("new", times=4)
    assert [turns.admit() for _ in range(4)] == ["poor", "new"] * 2


def test_who_was_served_much_is_not_behind_who_comes_while_nobody_else_waits() -> None:
    turns = Turns()
    turns.wait("rich")
    turns.admit()
    turns.turns.charge("rich", 1_000)
    turns.wait("rich", times=4)
    turns.wait("new", times=4)
    assert [turns.admit() for _ in range(4)] == ["rich", "new"] * 2


def test_a_chain_of_newcomers_does_not_starve_who_has_waited() -> None:
    """There is always one that has had nothing yet, and each asks for a single request."""
    turns = Turns()
    turns.wait("old", 10, times=2)
    turns.wait("new 0", 10)
    admitted = []
    for number in range(1, 20):
        turns.wait(f"new {number}")
        admitted.append(turns.admit())
    assert admitted.count("old") == 2


def test_the_number_of_remembered_tenants_is_bounded() -> None:
    turns = Turns()
    for number in range(MAX_IDLE_TENANTS + 100):
        turns.wait(f"t{number}")
        turns.admit()
        turns.turns.charge(f"stranger {number}", 5)
    assert len(turns.turns._idle) == MAX_IDLE_TENANTS


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), min_size=1, max_size=60), st.data())
def test_those_who_wait_all_the_time_get_alike(work: list[tuple[str, int]], data: st.DataObject) -> None:
    """Within the longest request of each, whatever comes and goes beside them."""
    turns = Turns()
    sizes = {"x": 7, "y": 50}
    served = {"x": 0, "y": 0}
    for tenant, size in sizes.items():
        turns.wait(tenant, size, times=2)
    for tenant, work_tokens in work:
        turns.wait(tenant, work_tokens)
        if data.draw(st.booleans()) and (admitted := turns.admit()) in served:
            served[admitted] += sizes[admitted]
            turns.wait(admitted, sizes[admitted])
        assert abs(served["x"] - served["y"]) <= 7 + 50
