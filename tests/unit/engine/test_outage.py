"""An operator hears once that the engine is lost, and once that there is one again."""

import pytest

from tailrace.engine.board import Board
from tailrace.engine.outage import OutageWatch
from tailrace.records import EventKind

LOST, BACK = EventKind.ENGINE_LOST, EventKind.ENGINE_BACK


class Told:
    def __init__(self, board: Board) -> None:
        self.kinds: list[EventKind] = []
        self.messages: list[str] = []
        self._watch = OutageWatch(board, self._tell)

    def look(self) -> list[EventKind]:
        self.kinds.clear()
        self._watch.look()
        return list(self.kinds)

    def _tell(self, kind: EventKind, message: str) -> None:
        self.kinds.append(kind)
        self.messages.append(message)


def start(board: Board, generation: int) -> None:
    board.begin(generation, 0.0, 1.0)


@pytest.fixture
def board() -> Board:
    return Board(4)


@pytest.fixture
def told(board: Board) -> Told:
    return Told(board)


def test_the_first_engine_is_none_that_came_back(board: Board, told: Told) -> None:
    assert told.look() == []
    start(board, 1)
    assert told.look() == []
    board.ready(1)
    assert told.look() == []


def test_a_loss_is_told_when_it_is_seen_and_the_next_engine_once_it_takes_requests(board: Board, told: Told) -> None:
    start(board, 1)
    board.ready(1)
    told.look()
    board.lose(())
    assert [told.look(), told.look()] == [[LOST], []]
    start(board, 2)
    assert told.look() == []
    board.ready(2)
    assert [told.look(), told.look()] == [[BACK], []]


def test_what_came_and_went_between_two_looks_is_told_at_once(board: Board, told: Told) -> None:
    start(board, 1)
    board.ready(1)
    told.look()
    board.lose(())
    start(board, 2)
    board.ready(2)
    assert told.look() == [LOST, BACK]


def test_an_engine_that_dies_before_it_takes_requests_is_one_loss(board: Board, told: Told) -> None:
    start(board, 1)
    board.ready(1)
    told.look()
    for generation in (2, 3):
        board.lose(())
        start(board, generation)
        assert told.look() == ([LOST] if generation == 2 else [])
    board.fail(100.0)
    assert told.look() == []


def test_that_none_is_started_for_a_while_is_said(board: Board, told: Told) -> None:
    start(board, 1)
    board.ready(1)
    told.look()
    board.fail(100.0)
    assert told.look() == [LOST]
    assert "none is started for a while" in told.messages[-1]
