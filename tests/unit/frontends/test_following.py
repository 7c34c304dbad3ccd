import asyncio

import pytest

from tailrace.errors import ContextTooLong, EngineError, Overloaded, RefusalReason, UnavailableError
from tailrace.frontends.client_gone import ClientGone
from tailrace.frontends.following import following, note_asked, note_trace
from tailrace.frontends.trace_context import TraceContext
from tailrace.service.api import Generation, TextPrompt
from tailrace.telemetry.lives import LifeLog
from tailrace.types import SamplingParams
from tests.support.following import make_life

FULL = Overloaded("full", retry_after_s=1.0, reason=RefusalReason.TENANT_LIMIT)


def test_a_life_is_open_until_it_ends() -> None:
    lives, life = LifeLog(), make_life()
    moments = []
    with following(lives, life):
        assert lives.lives() == [life]
        moments.append(life.ended_s)
    assert lives.lives() == [life]
    moments.append(life.ended_s)
    assert [moment is None for moment in moments] == [True, False]
    assert (life.finish_reason, life.error) == (None, None)


@pytest.mark.parametrize(
    ("error", "code", "finish_reason"),
    [
        (ClientGone(), "client_gone", "abort"),
        (asyncio.CancelledError(), "cancelled", "abort"),
        (ContextTooLong("too long"), "context_length_exceeded", "error"),
        (FULL, "tenant_limit", "error"),
        (UnavailableError("draining"), "unavailable", "error"),
        (EngineError("what nobody is told"), "internal_error", "error"),
        (ValueError("nor this"), "internal_error", "error"),
    ],
)
def test_what_is_raised_is_how_it_ended(error: BaseException, code: str, finish_reason: str) -> None:
    lives, life = LifeLog(), make_life()
    with pytest.raises(type(error)), following(lives, life):
        raise error
    assert lives.lives() == [life]
    assert life.ended_s is not None
    assert (life.error, life.finish_reason) == (code, finish_reason)


def test_an_answer_that_was_complete_keeps_its_end_though_its_client_never_saw_it() -> None:
    lives, life = LifeLog(), make_life()
    life.finish_reason = "stop"
    with pytest.raises(ClientGone), following(lives, life):
        raise ClientGone
    assert (life.error, life.finish_reason) == ("client_gone", "stop")


def test_the_span_that_answers_is_part_of_a_life() -> None:
    life = make_life()
    note_trace(life, None)
    assert (life.trace, life.parent_span_id, life.trace_state) == ("", "", "")
    note_trace(life, TraceContext("1" * 32, "2" * 16, True, "3" * 16, "a=1"))
    assert life.trace == f"00-{'1' * 32}-{'2' * 16}-01"
    assert (life.parent_span_id, life.trace_state) == ("3" * 16, "a=1")


def test_what_is_asked_is_part_of_a_life() -> None:
    life, sampling = make_life(), SamplingParams(7, temperature=0.5)
    note_asked(life, Generation("r", TextPrompt("secret"), sampling, seed=3), 2, is_streamed=True)
    assert (life.sampling, life.seed, life.num_choices, life.is_streamed) == (sampling, 3, 2, True)
