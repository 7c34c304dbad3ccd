from tailrace.engine.probation import Probation
from tailrace.engine.wire import Submit
from tailrace.types import Request, SamplingParams, TokenEvent


def suspect(number: int) -> Submit:
    return Submit(number, Request(f"r{number}", (1,), SamplingParams(1)), is_suspect=True)


def probation(*numbers: int) -> Probation:
    made = Probation()
    for number in numbers:
        made.hold(suspect(number))
    return made


def test_suspects_are_let_in_one_after_the_other() -> None:
    made = probation(1, 2)
    assert made.next() == suspect(1)
    assert made.next() is None
    assert not made.saw([TokenEvent("other", 5)])
    assert made.next() is None
    assert made.saw([TokenEvent("other", 5), TokenEvent("r1", 5)])
    assert made.next() == suspect(2)
    assert made.saw([TokenEvent("r2", 5)])
    assert made.next() is None
    assert made.current is None


def test_a_token_of_one_that_was_let_in_before_lets_nobody_in() -> None:
    made = probation(1, 2, 3)
    made.next()
    made.saw([TokenEvent("r1", 5)])
    made.next()
    assert not made.saw([TokenEvent("r1", 6)])
    assert made.next() is None


def test_one_that_cannot_go_on_holds_up_nobody() -> None:
    made = probation(1, 2)
    made.next()
    made.release(2)
    assert made.next() is None
    made.release(1)
    assert made.next() == suspect(2)


def test_one_that_was_set_aside_comes_back_in_its_turn() -> None:
    made = probation(1, 2)
    made.next()
    made.set_aside()
    assert made.next() == suspect(2)
    made.saw([TokenEvent("r2", 5)])
    made.bring_back("r1")
    assert made.current == suspect(1)
    made.saw([TokenEvent("r1", 5)])
    made.set_aside()  # it is past
    assert made.aside == {}


def test_who_waits_can_be_taken_out() -> None:
    made = probation(1, 2, 3, 4)
    made.next()
    assert made.withdraw(1) is None  # it is in
    assert made.withdraw(2) == suspect(2)
    made.withdraw_all(lambda number: number == 3)
    assert len(made) == 1
    made.release(1)
    assert made.next() == suspect(4)
