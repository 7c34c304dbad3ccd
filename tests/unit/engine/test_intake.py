import threading

import pytest

from tailrace.engine.intake import Intake, IntakeConfig, IntakeMessages
from tailrace.errors import ContextTooLong, InvalidRequest, Overloaded, UnavailableError
from tailrace.types import Explain, FinishReason, Request, SamplingParams


def request(name: str, num_tokens: int = 4, class_name: str = "gold", tenant: str = "") -> Request:
    sampling = SamplingParams(max_tokens=8)
    return Request(name, tuple(range(num_tokens)), sampling, class_name=class_name, tenant=tenant)


def intake(max_queued: int = 2, max_queued_tokens: int = 100) -> Intake:
    return Intake(IntakeConfig(max_queued, max_queued_tokens, max_model_tokens=32))


def ids(messages: IntakeMessages) -> list[str]:
    return [item.request_id for item in messages.requests]


def test_requests_come_out_in_order_and_once() -> None:
    inbox = intake()
    inbox.submit(request("a"))
    inbox.submit(request("b"))

    assert ids(inbox.take()) == ["a", "b"]
    assert ids(inbox.take()) == []


def test_an_id_is_free_when_its_request_has_ended() -> None:
    inbox = intake()
    inbox.submit(request("a"))
    with pytest.raises(InvalidRequest, match="'a' is in use"):
        inbox.submit(request("a"))
    inbox.started("a", now_s=1.0)
    with pytest.raises(InvalidRequest, match="'a' is in use"):
        inbox.submit(request("a"))
    inbox.ended("a", now_s=2.0)
    inbox.submit(request("a"))


def test_who_was_taken_is_aborted_and_who_was_not_is_withdrawn() -> None:
    inbox = intake()
    inbox.submit(request("a"))
    inbox.take()
    inbox.submit(request("b"))
    inbox.abort("a", FinishReason.STOP)
    inbox.abort("a")
    inbox.abort("b")

    messages = inbox.take()

    assert ids(messages) == []
    assert messages.aborts == (("a", FinishReason.STOP),)
    assert [(item.request_id, reason) for item, reason in messages.withdrawn] == [("b", FinishReason.ABORT)]


def test_an_abort_of_nobody_is_no_news() -> None:
    inbox = intake()
    for number in range(10_000):
        inbox.abort(f"unheard of {number}")
    inbox.submit(request("a"))
    inbox.take()
    inbox.ended("a", now_s=1.0)
    inbox.abort("a")

    inbox.wait(0.0)
    assert inbox.take().aborts == ()


def test_an_abort_of_who_ends_meanwhile_is_forgotten() -> None:
    inbox = intake()
    inbox.submit(request("a"))
    inbox.take()
    inbox.abort("a")
    inbox.ended("a", now_s=1.0)

    assert inbox.take().aborts == ()


def test_a_withdrawn_request_keeps_its_place_until_the_loop_has_seen_it() -> None:
    inbox = intake(max_queued=1)
    inbox.submit(request("a"))
    inbox.abort("a")
    with pytest.raises(Overloaded):
        inbox.submit(request("b"))
    inbox.take()
    inbox.ended("a", now_s=1.0)
    inbox.submit(request("b"))


def test_what_is_much_can_be_taken_in_pieces() -> None:
    inbox = intake(max_queued=100, max_queued_tokens=10_000)
    for number in range(40):
        inbox.submit(request(str(number)))
    pieces = [inbox.take_some()]
    inbox.wait()  # there is more
    pieces += [inbox.take_some() for _ in range(2)]
    assert [len(piece.requests) for piece in pieces] == [16, 16, 8]
    assert [piece.is_partial for piece in pieces] == [True, True, False]
    for number in range(40, 60):
        inbox.submit(request(str(number)))
    for number in range(60):
        inbox.abort(str(number))

    pieces = [inbox.take_some() for _ in range(3)]
    assert [(len(piece.withdrawn), len(piece.aborts)) for piece in pieces] == [(16, 16), (4, 16), (0, 8)]
    assert inbox.take_some() == IntakeMessages((), (), (), (), (), is_closed=False)


def test_long_prompts_make_short_pieces() -> None:
    inbox = Intake(IntakeConfig(100, 100_000, max_model_tokens=8_192))
    for number, num_tokens in enumerate((1_000, 1_000, 5_000, 10, 10)):
        inbox.submit(request(str(number), num_tokens))
    assert [ids(inbox.take_some()) for _ in range(2)] == [["0", "1", "2"], ["3", "4"]]


def test_no_burst_of_a_tenant_or_a_class_holds_up_others() -> None:
    inbox = intake(max_queued=100, max_queued_tokens=1_000)
    for number in range(20):
        inbox.submit(request(f"many-{number}", class_name="bronze", tenant="loud"))
    inbox.submit(request("other", class_name="bronze", tenant="calm"))
    inbox.submit(request("best", class_name="gold", tenant="loud"))

    assert ids(inbox.take_some()) == [*(f"many-{number}" for number in range(14)), "other", "best"]
    assert ids(inbox.take()) == [f"many-{number}" for number in range(14, 20)]


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
    inbox.started("a", now_s=1.0)
    inbox.submit(request("c"))

    assert refusal.value.retry_after_s >= 1.0
    assert inbox.num_queued == 2


def test_queued_tokens_are_bounded_but_a_long_prompt_gets_its_turn() -> None:
    inbox = intake(max_queued=10, max_queued_tokens=10)
    inbox.submit(request("long", 20))
    with pytest.raises(Overloaded):
        inbox.submit(request("next", 1))
    inbox.started("long", now_s=1.0)
    inbox.submit(request("a", 6))
    with pytest.raises(Overloaded):
        inbox.submit(request("b", 6))


def test_leaving_the_queue_twice_counts_once() -> None:
    inbox = intake(max_queued=1)
    inbox.submit(request("a"))
    inbox.started("a", now_s=1.0)
    inbox.started("a", now_s=2.0)
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
        inbox.started(f"gone-{number}", now_s=2.0 * number)

    assert refused_for_s(inbox) == 8.0


def test_retry_after_counts_no_idle_time_and_has_bounds() -> None:
    idle = intake(max_queued=8)
    for number in range(8):  # one request a minute, served at once
        idle.submit(request(f"gone-{number}"))
        idle.started(f"gone-{number}", now_s=60.0 * number)
    slow = intake(max_queued=8)
    slow.submit(request("a"))
    slow.submit(request("b"))
    slow.started("a", now_s=0.0)
    slow.started("b", now_s=100.0)

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


def test_waiting_ends_when_the_time_is_over() -> None:
    inbox = intake()

    inbox.wait(0.0)
    inbox.wait(0.001)

    assert not inbox.take().requests


def test_waiting_ends_when_somebody_wakes_the_loop() -> None:
    inbox = intake()
    inbox.wake()
    inbox.wait()
    inbox.take()
    threading.Timer(0.01, inbox.wake).start()
    inbox.wait()


def test_waiting_ends_when_it_is_time() -> None:
    inbox = intake()
    inbox.wait(timeout_s=0.01)
    assert inbox.take().requests == ()


def test_questions_wake_the_loop_and_are_bounded() -> None:
    inbox = intake()
    inbox.ask(Explain(0, (1, 2)))
    inbox.wait()
    for number in range(1, 64):
        inbox.ask(Explain(number, (1, 2)))
    with pytest.raises(Overloaded, match="ask again"):
        inbox.ask(Explain(64, (1, 2)))

    assert [query.query_id for query in inbox.take().queries] == list(range(64))
    inbox.ask(Explain(65, (1, 2)))


def test_a_closed_intake_takes_no_questions() -> None:
    inbox = intake()
    inbox.close()
    with pytest.raises(UnavailableError):
        inbox.ask(Explain(1, ()))


def test_a_pause_comes_behind_the_request_that_it_is_for_and_the_last_word_counts() -> None:
    inbox = intake(max_queued=40)
    for number in range(17):
        inbox.submit(request(str(number)))
    inbox.pause("16")
    inbox.pause("0")
    inbox.proceed("0")

    assert inbox.take_some().pauses == (("0", False),)
    assert inbox.take_some().pauses == (("16", True),)
    assert not inbox.has_news


def test_nobody_who_is_not_here_is_paused() -> None:
    inbox = intake()
    inbox.pause("nobody")
    assert not inbox.has_news
    inbox.submit(request("a"))
    inbox.take()
    inbox.pause("a")
    inbox.ended("a", now_s=1.0)
    assert inbox.take().pauses == ()
