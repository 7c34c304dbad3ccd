import pytest

from tailrace.frontends.charged import charged
from tailrace.frontends.rate_gate import Visit
from tailrace.frontends.standing import ANYBODY
from tailrace.service.api import Usage
from tests.support.broken_gate import BrokenGate
from tests.support.following import make_life
from tests.support.scripted_service import ScriptedStream, finish, token

SCRIPT = (token("a"), token("b"), finish())


async def test_the_prompt_is_charged_at_once_and_the_answer_when_it_has_ended() -> None:
    charges: list[int] = []
    stream, life = ScriptedStream(SCRIPT), make_life()
    async with charged(stream, Visit(charge=charges.append), life):
        assert charges == [7]
        while await stream.take():
            pass
        assert stream.num_closed == 0
    assert charges == [7, 2]
    assert stream.num_closed == 1
    assert (life.num_prompt_tokens, life.num_output_tokens) == (7, 2)
    assert (life.found, life.miss_reason) == ({"engine": 1, "host": 3}, "evicted")


async def test_what_was_paid_before_is_not_charged_again() -> None:
    charges: list[int] = []
    stream = ScriptedStream(SCRIPT)
    async with charged(stream, Visit(charge=charges.append), make_life(), Usage(7, 1, 0)):
        await stream.take()
    assert charges == [1]
    async with charged(ScriptedStream(SCRIPT), Visit(charge=charges.append), make_life(), Usage(9, 9, 0)):
        pass
    assert charges == [1]


async def test_work_ends_whatever_fails() -> None:
    stream = ScriptedStream(SCRIPT)
    with pytest.raises(OSError, match="gone"):
        async with charged(stream, BrokenGate().enter(ANYBODY), make_life()):
            raise AssertionError("it was charged")
    assert stream.num_closed == 1
