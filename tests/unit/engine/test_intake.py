import threading

import pytest

from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.errors import ContextTooLong, Overloaded, UnavailableError
from tailrace.types import FinishReason, Request, SamplingParams


def request(name: str, num_tokens: int = 4) -> Request:
    return Request(name, tuple(range(num_tokens)), SamplingParams(max_tokens=8))


def intake(max_queued: int = 2, max_queued_tokens: int = 100) -> Intake:
    return Intake(IntakeConfig(max_queued, max_queued_tokens, max_model_tokens=32))


def test_requests_come_out_in_order_and_once() -> None:
    inbox = intake()
    inbox.submit(request("a"))
    inbox.submit(request("b"))
    inbox.abort("a")

    messages = inbox.take()

    assert [item.request_id for item in messages.requests] == ["a", "b"]
    assert messages.aborts == (("a", FinishReason.ABORT),)
    assert inbox.take().requests == ()


def test_a_request_arrives_when_it_is_submitted() -> None:
    inbox = Intake(IntakeConfig(2, 100, max_model_tokens=32), clock=lambda: 7.5)
    inbox.submit(request("a"))

    assert inbox.take().requests[0].arrival_s == 7.5


def test_a_full_queue_refuses_until_a_request_has_left_it() -> None:
    inbox = intake(max_queued=2)
    inbox.submit(request("a"))
    inbox.submit(request("b"))
    inbox.take()  # picked up by the loop, but not yet running: still queued

    with pytest.raises(Overloaded) as refusal:
        inbox.submit(request("c"))
    inbox.left_queue("a", now_s=1.0)
    inbox.submit(request("c"))

    assert refusal.value.retry_after_s >= 1.0
    assert inbox.num_queued == 2


def test_queued_tokens_are_bounded_but_a_long_prompt_gets_its_turn() -> None:
    inbox = intake(max_queued=10, max_queued_tokens=10)
    inbox.submit(request("long", 20))
    with pytest.raises(Overloaded):
        inbox.submit(request("next", 1))
    inbox.left_queue("long", now_s=1.0)
    inbox.submit(request("a", 6))
    with pytest.raises(Overloaded):
        inbox.submit(request("b", 6))


def test_leaving_the_queue_twice_counts_once() -> None:
    inbox = intake(max_queued=1)
    inbox.submit(request("a"))
    inbox.left_queue("a", now_s=1.0)
    inbox.left_queue("a", now_s=2.0)
    inbox.submit(request("b"))
    with pytest.raises(Overloaded):
        inbox.submit(request("c"))


def refused_for_s(inbox: Intake) -> float:
    """Fill the queue; what the next one is told."""
    with pytest.raises(Overloaded) as refusal:  # noqa: PT012  (which of them is refused first does not matter)
        for number in range(100):
            inbox.submit(request(f"waiting-{number}"))
    return refusal.value.retry_after_s


def test_retry_after_is_the_time_the_queue_needs_at_its_own_pace() -> None:
    inbox = intake(max_queued=4)
    for number in range(4):
        inbox.submit(request(f"gone-{number}"))
    for number in range(4):  # one departure every two seconds
        inbox.left_queue(f"gone-{number}", now_s=2.0 * number)

    assert refused_for_s(inbox) == 8.0


def test_retry_after_counts_no_idle_time_and_has_bounds() -> None:
    idle = intake(max_queued=8)
    for number in range(8):  # one request a minute, served at once
        idle.submit(request(f"gone-{number}"))
        idle.left_queue(f"gone-{number}", now_s=60.0 * number)
    slow = intake(max_queued=8)
    slow.submit(request("a"))
    slow.submit(request("b"))
    slow.left_queue("a", now_s=0.0)
    slow.left_queue("b", now_s=100.0)

    assert refused_for_s(idle) == 1.0
    assert refused_for_s(slow) == 60.0


def test_a_closed_inbox_takes_nothing_and_still_gives_what_it_has() -> None:
    inbox = intake()
    inbox.submit(request("a"))
    inbox.close()

    with pytest.raises(UnavailableError):
        inbox.submit(request("b"))
    messages = inbox.take()
    assert [item.request_id for item in messages.requests] == ["a"]
    assert messages.is_closed


def test_a_prompt_that_fills_the_context_is_refused() -> None:
    with pytest.raises(ContextTooLong, match=r"32 tokens; the context holds 32"):
        intake().submit(request("a", 32))


def test_waiting_ends_when_something_arrives() -> None:
    inbox = intake()
    threading.Timer(0.01, inbox.submit, [request("a")]).start()

    inbox.wait()

    assert [item.request_id for item in inbox.take().requests] == ["a"]
