from collections.abc import Iterable, Sequence

from tailrace.engine.board import Board
from tailrace.engine.watch import BoardWatch
from tailrace.scheduler.plan import SequenceEntry, StepPlan
from tailrace.types import Request, SamplingParams


def numbers(request_ids: Iterable[str]) -> Sequence[int]:
    return [int(each) for each in request_ids]


def plan(entered: Sequence[str] = (), left: Sequence[str] = ()) -> StepPlan:
    entries = tuple(SequenceEntry(each, (1,), 1, SamplingParams(1)) for each in entered)
    return StepPlan(1, tuple(left), entries, (), ())


def test_the_board_shows_who_runs() -> None:
    board = Board(max_running=4)
    watch = BoardWatch(board, numbers, patience_s=10.0)
    watch.step_began(plan(["1", "2"]), 0.0, None)
    assert board.running == (1, 2)
    watch.step_began(plan(["3"], left=["1"]), 1.0, None)
    assert board.running == (2, 3)


def requests(*numbers: int) -> list[Request]:
    return [Request(str(number), (1,), SamplingParams(1)) for number in numbers]


def test_who_is_taken_in_may_be_what_kills_it_until_a_step_was_planned() -> None:
    board = Board(max_running=3)
    watch = BoardWatch(board, numbers, patience_s=10.0)
    watch.step_began(plan(["1"]), 0.0, None)
    watch.taking_in(requests(2))
    assert list(board.running) == [2, 1]
    watch.came_round(1.0)
    watch.taking_in(requests(3, 4))
    assert list(board.running) == [4, 3, 2]  # as many as it holds
    watch.step_began(plan(["3"]), 2.0, None)
    assert list(board.running) == [1, 3]


def test_who_waits_for_long_is_no_news() -> None:
    board = Board(max_running=4)
    watch = BoardWatch(board, numbers, patience_s=10.0)
    watch.taking_in(requests(1))
    watch.came_round(1.0)
    watch.came_round(2.0)
    watch.taking_in(requests(2))
    assert list(board.running) == [2]


def test_a_step_that_should_take_long_has_the_time() -> None:
    board = Board(max_running=4)
    watch = BoardWatch(board, numbers, patience_s=10.0)
    watch.step_began(plan(), 0.0, 3.0)
    assert board.overdue_s(29.0) < 0.0 < board.overdue_s(31.0)
    watch.came_round(31.0)
    assert board.overdue_s(40.0) < 0.0 < board.overdue_s(42.0)


def test_a_step_that_waits_for_what_comes_piece_by_piece_does_not_hang() -> None:
    board = Board(max_running=4)
    watch = BoardWatch(board, numbers, patience_s=10.0)
    watch.step_began(plan(), 0.0, None)
    watch.goes_on(9.0)
    assert board.overdue_s(18.0) < 0.0 < board.overdue_s(20.0)
    watch.step_began(plan(), 20.0, 3.0)
    watch.goes_on(21.0)
    assert board.overdue_s(50.0) < 0.0 < board.overdue_s(52.0)  # as long as it may take anyhow
