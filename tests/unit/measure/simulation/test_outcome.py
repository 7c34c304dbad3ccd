from tailrace.errors import RefusalReason
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.outcome import Outcome
from tailrace.types import FinishReason, Refusal, TokenEvent

ARRIVAL = Arrival("a", 1.0, 4, 2)


def test_tokens_are_noted_when_they_come_and_the_last_completes() -> None:
    outcome = Outcome.of([ARRIVAL])
    one = outcome.served["a"]
    outcome.take([TokenEvent("a", 7)], 1.5)
    assert (one.token_s, one.ttft_s, one.has_ended) == ([1.5], 0.5, False)
    outcome.take([TokenEvent("a", 7, finish_reason=FinishReason.LENGTH)], 2.0)
    assert (one.token_s, one.is_complete, one.has_ended) == ([1.5, 2.0], True, True)


def test_a_refusal_and_an_error_end_a_request_without_completing_it() -> None:
    refusal = Refusal(RefusalReason.QUEUE_TIMEOUT, "too long", 1.0)
    for given in (None, refusal):
        outcome = Outcome.of([ARRIVAL])
        outcome.take([TokenEvent("a", None, finish_reason=FinishReason.ERROR, refusal=given)], 2.0)
        one = outcome.served["a"]
        assert (one.has_ended, one.is_complete) == (True, False)
        assert one.refused_for == (given.reason if given else None)
