from hypothesis import given
from hypothesis import strategies as st

from tailrace.engine.inbox import Inbox
from tailrace.types import Request, SamplingParams


def request(name: str, class_name: str = "", tenant: str = "") -> Request:
    return Request(name, (1,), SamplingParams(1), class_name=class_name, tenant=tenant)


def names(inbox: Inbox) -> list[str]:
    return [inbox.pop().request_id for _ in range(len(inbox))]


def test_tenants_and_classes_take_turns() -> None:
    inbox = Inbox()
    for number in range(3):
        inbox.put(request(f"a{number}", "gold", "a"))
    for number in range(2):
        inbox.put(request(f"b{number}", "gold", "b"))
    inbox.put(request("c", "bronze", "a"))
    assert names(inbox) == ["a0", "b0", "c", "a1", "b1", "a2"]


def test_who_withdraws_is_out() -> None:
    inbox = Inbox()
    for name in "abc":
        inbox.put(request(name))
    withdrawn = inbox.withdraw("b")
    assert withdrawn is not None
    assert withdrawn.request_id == "b"
    assert inbox.withdraw("b") is None
    assert names(inbox) == ["a", "c"]
    assert inbox.withdraw("a") is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "put", "pop", "withdraw"]), st.integers(0, 9), st.integers(0, 3)),
        max_size=60,
    )
)
def test_each_line_keeps_its_order_and_no_line_waits_more_than_a_round(
    operations: list[tuple[str, int, int]],
) -> None:
    """Beside a list that is searched."""
    inbox, waiting = Inbox(), list[Request]()
    skipped = dict.fromkeys([str(line) for line in range(4)], 0)
    for number, (operation, place, line) in enumerate(operations):
        if operation == "put":
            waiting.append(request(str(number), tenant=str(line)))
            inbox.put(waiting[-1])
        elif operation == "pop" and waiting:
            popped = inbox.pop()
            assert popped is next(each for each in waiting if each.tenant == popped.tenant)
            for tenant in skipped:
                is_waiting = any(each.tenant == tenant for each in waiting)
                skipped[tenant] = skipped[tenant] + 1 if is_waiting and tenant != popped.tenant else 0
            assert max(skipped.values()) < len(skipped)
            waiting.remove(popped)
        elif operation == "withdraw" and waiting:
            gone = waiting.pop(place % len(waiting))
            assert inbox.withdraw(gone.request_id) is gone
            if all(each.tenant != gone.tenant for each in waiting):
                skipped[gone.tenant] = 0  # whose line is over begins at the end when it comes back
        assert len(inbox) == len(waiting)
